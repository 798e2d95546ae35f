"""Building `cdp.totals` from a column of labels, against pandas.factorize of that column."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

import cdp_views as cdp
from benchmarks.harness import Case, Run
from benchmarks.tables import Layout, labels, layouts


def cases(cells: int) -> Iterator[Case]:
    """Integers and strings, scrambled."""
    layout = layouts(cells)[0]
    for kind in ("ints", "strings"):
        yield Case(
            f"totals of {kind}, {layout.name}",
            "pandas.factorize",
            None,
            partial(prepare, layout, kind),
            layout.sizes,
            dtypes=("-",),
        )


def prepare(layout: Layout, kind: str) -> tuple[Run, Run]:
    """The whole constructor against its first step."""
    column = labels(layout)
    if kind == "strings":
        column = np.array([f"group-{i}" for i in range(layout.groups)], dtype=object)[column]
    return partial(cdp.totals, column), partial(pd.factorize, column)
