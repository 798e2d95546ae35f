"""The geometry of what must hold exactly."""

from cdp_views.invariants._base import Invariant as Invariant
from cdp_views.invariants._precision import Precision as Precision
from cdp_views.invariants.bounds import Bounds as Bounds
from cdp_views.invariants.bounds import Region as Region
from cdp_views.invariants.bounds import bounds as bounds
from cdp_views.invariants.bounds import nonnegative as nonnegative
from cdp_views.invariants.bounds import region_of as region_of
from cdp_views.invariants.linear import Linear as Linear
from cdp_views.invariants.linear import linear as linear
from cdp_views.invariants.margins import Margins as Margins
from cdp_views.invariants.margins import margins as margins
from cdp_views.invariants.totals import Totals as Totals
from cdp_views.invariants.totals import totals as totals
