"""Where constrained tables live: NumPyro constraints, bijections, and the prior for a table."""

from cdp_views.support.affine import AffineSubspace as AffineSubspace
from cdp_views.support.nonnegative import NonnegativeTotals as NonnegativeTotals
from cdp_views.support.poisson import ContinuousPoisson as ContinuousPoisson
from cdp_views.support.region import WithinRegion as WithinRegion
from cdp_views.support.restricted import Restricted as Restricted
from cdp_views.support.whole import WholeTotals as WholeTotals
