"""Which tables must be hard to tell apart: the unit of privacy, relative to the totals.

A level of a hierarchy can have a unit of its own. What its sums W x give away is asked for with
`query=W` and that level's neighbours; `calibrate(levels=)` takes such pairs with their budgets.

Example:
  >>> import cdp_views as cdp, jax.numpy as jnp, numpyro.distributions as dist
  >>> state, county = cdp.totals(["S"] * 6), cdp.totals(["a", "a", "a", "b", "b", "c"])
  >>> view = cdp.Conditioned(dist.Normal(jnp.zeros(6), 10.0), state)
  >>> household = cdp.households(state, size=4)  # moves to another county
  >>> round(cdp.privacy_loss(view, household, query=county.matrix).mu, 4)
  0.4899
  >>> round(cdp.privacy_loss(view, cdp.relocations(county)).mu, 4)  # a record, inside its county
  0.1414
"""

from cdp_views.neighbours.additions import Additions as Additions
from cdp_views.neighbours.additions import additions as additions
from cdp_views.neighbours.base import Neighbours as Neighbours
from cdp_views.neighbours.classes import Classes as Classes
from cdp_views.neighbours.contributions import Contributions as Contributions
from cdp_views.neighbours.differences import Differences as Differences
from cdp_views.neighbours.differences import differences as differences
from cdp_views.neighbours.exchanges import Exchanges as Exchanges
from cdp_views.neighbours.exchanges import exchanges as exchanges
from cdp_views.neighbours.households import Households as Households
from cdp_views.neighbours.households import households as households
from cdp_views.neighbours.moves import Moves as Moves
from cdp_views.neighbours.moves import moves as moves
from cdp_views.neighbours.relocations import Relocations as Relocations
from cdp_views.neighbours.relocations import relocations as relocations
from cdp_views.neighbours.replacements import Replacements as Replacements
from cdp_views.neighbours.replacements import replacements as replacements
from cdp_views.neighbours.series import Series as Series
from cdp_views.neighbours.series import series as series
from cdp_views.neighbours.units import UnitRelocations as UnitRelocations
