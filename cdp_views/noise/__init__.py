"""Base noises: what a NumPyro distribution over cells is made of."""

from cdp_views.noise.discrete import DiscreteLaplace as DiscreteLaplace
from cdp_views.noise.discrete import DiscreteNormal as DiscreteNormal
from cdp_views.noise.discrete import log_mass as log_mass
from cdp_views.noise.discrete import masses as masses
from cdp_views.noise.mixing import Mixing as Mixing
from cdp_views.noise.parts import Parts as Parts
from cdp_views.noise.parts import parts as parts
from cdp_views.noise.scale_mixture import ScaleMixture as ScaleMixture
