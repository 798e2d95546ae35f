"""An invariant as plain JSON, and back, without the confidential table."""

from typing import Any

import numpy as np
from scipy import sparse

from cdp_views.invariants import Invariant, Margins, Totals, linear, margins


def to_json(invariant: Invariant, values: np.ndarray) -> dict[str, Any]:
    """What must hold, enough to build it again, and the exact `values` (k,)."""
    if isinstance(invariant, Totals):
        labels = np.asarray(invariant.segments.labels)
        weights = None if invariant.weights is None else np.asarray(invariant.weights, np.float64)
        return {
            "kind": "totals",
            "names": names_of(invariant),
            "group_of_cell": np.where(labels < invariant.rank, labels, -1).tolist(),
            "weights": None if weights is None else weights.tolist(),
            "values": values.tolist(),
        }
    if isinstance(invariant, Margins):
        return {
            "kind": "margins",
            "names": names_of(invariant),
            "shape": list(invariant.sizes),
            "keep": [list(axes) for axes in invariant.keep],
            "values": values.tolist(),
        }
    rows = sparse.coo_array(invariant.matrix)
    return {
        "kind": "linear",
        "names": names_of(invariant),
        "shape": [len(values), invariant.n],
        "row": rows.row.tolist(),
        "cell": rows.col.tolist(),
        "weight": rows.data.tolist(),
        "values": values.tolist(),
    }


def from_json(stored: dict[str, Any]) -> Invariant:
    """The invariant that `to_json` described."""
    if stored["kind"] == "totals":
        names = stored["names"]
        labels = np.asarray(stored["group_of_cell"], dtype=np.int64)
        return Totals.of(labels, None if names is None else np.asarray(names), stored["weights"])
    if stored["kind"] == "margins":
        return margins(stored["shape"], stored["keep"])
    entries = np.asarray(stored["weight"], dtype=np.float64)
    place = [np.asarray(stored[name], dtype=np.int64) for name in ("row", "cell")]
    return linear(sparse.csr_array((entries, place), shape=tuple(stored["shape"])))


def names_of(invariant: Invariant) -> list[str] | None:
    """The labels of the totals as text, where there are labels."""
    names = invariant.names
    return None if names is None else [str(name) for name in names]
