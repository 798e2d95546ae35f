"""Three ways to make a base noise keep exact totals, as NumPyro distributions."""

from cdp_views.views import _divergence as _divergence  # registers kl_divergence
from cdp_views.views._base import View as View
from cdp_views.views.chunks import draws_in_chunks as draws_in_chunks
from cdp_views.views.conditioned.factory import Conditioned as Conditioned
from cdp_views.views.imaged.factory import Imaged as Imaged
from cdp_views.views.imaged.fibre import observe_imaged as observe_imaged
from cdp_views.views.max_entropy.augmented import needs_scales as needs_scales
from cdp_views.views.max_entropy.augmented import observe_max_entropy as observe_max_entropy
from cdp_views.views.max_entropy.factory import MaxEntropy as MaxEntropy
from cdp_views.views.observing import observe_view as observe_view
