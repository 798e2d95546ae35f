"""What every error would be at other budgets: all of them grow with the scale of the noise."""

from typing import Any

import numpy as np
import pandas as pd

from cdp_views.loss import analytic_gaussian_mu

_STEPS = np.geomspace(0.1, 10.0, 21)


def other_budgets(table: pd.DataFrame) -> dict[str, Any] | None:
    """By how much each mechanism's errors change when the budget is ε instead, δ as it is.

    Normal noise keeps (ε, δ): its scale is proportional to 1/μ(ε, δ). Noise at pure ε, and what
    takes its scale, is proportional to 1/ε.

    Args:
        table: `Comparison.table`; all its rows were asked for one budget.

    Returns:
        `epsilon` (b,), from a tenth to ten times the budget, and `factor` (mechanism, b); None
        where no row tells the budget.

    Example:
        >>> import pandas as pd
        >>> row = {"noise": "laplace", "epsilon": 1.0, "delta": 0.0}
        >>> [f"{f:.1f}" for f in other_budgets(pd.DataFrame([row]))["factor"][0][[0, 10, 20]]]
        ['10.0', '1.0', '0.1']

    Reference: Balle & Wang (2018), "Improving the Gaussian mechanism", Theorem 8.
    """
    asked = table["epsilon"].dropna()
    if asked.empty:
        return None
    epsilon = float(asked.iloc[0]) * _STEPS
    return {
        "epsilon": epsilon,
        "factor": np.stack([_factor(row, epsilon) for _, row in table.iterrows()]),
    }


def _factor(row: pd.Series, epsilon: np.ndarray) -> np.ndarray:
    if row["noise"] != "normal":
        return 1 / _STEPS
    mu = np.array([analytic_gaussian_mu(e, float(row["delta"])) for e in epsilon])
    return analytic_gaussian_mu(float(row["epsilon"]), float(row["delta"])) / mu
