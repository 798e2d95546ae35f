"""Base noises: what a NumPyro distribution over cells is made of."""

from cdp_views.noise.mixing import Mixing as Mixing
from cdp_views.noise.parts import Parts as Parts
from cdp_views.noise.parts import parts as parts
from cdp_views.noise.scale_mixture import ScaleMixture as ScaleMixture
