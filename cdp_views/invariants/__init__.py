"""The geometry of what must hold exactly."""

from cdp_views.invariants._base import Invariant as Invariant
from cdp_views.invariants._precision import Precision as Precision
from cdp_views.invariants.linear import Linear as Linear
from cdp_views.invariants.linear import linear as linear
from cdp_views.invariants.margins import Margins as Margins
from cdp_views.invariants.margins import margins as margins
from cdp_views.invariants.totals import Totals as Totals
from cdp_views.invariants.totals import totals as totals
