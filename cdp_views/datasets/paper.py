"""The table that [L] works on."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_TABLE_1 = {
    ("S1", "C1"): (861, 271, 107),
    ("S1", "C2"): (701, 21, 615),
    ("S2", "C3"): (215, 331),
    ("S2", "C4"): (88, 373),
    ("S2", "C5"): (872, 664, 131),
}


def lafferty_blocks() -> "pd.DataFrame":
    """The 13 blocks in five counties of two states, simulated counts of [L] Table 1.

    Returns:
        A data frame with the columns `state`, `county`, `block` (labels of this package: the paper
        numbers nothing) and `count` (persons). The states hold 2576 and 2674, the counties 1239,
        1337, 546, 461 and 1667.

    Example:
        >>> from cdp_views import datasets
        >>> datasets.lafferty_blocks().groupby("state")["count"].sum().to_dict()
        {'S1': 2576, 'S2': 2674}

    Reference: [L] R. Lafferty, A Maximum Entropy Implementation of Differential Privacy Under
    Linear Invariants, arXiv:2607.22450, Table 1.
    """
    import pandas as pd  # here: the CLI's --help must not wait for pandas

    rows = [
        (state, county, count) for (state, county), counts in _TABLE_1.items() for count in counts
    ]
    table = pd.DataFrame(rows, columns=["state", "county", "count"])
    table.insert(2, "block", [f"B{number}" for number in range(1, len(table) + 1)])
    return table
