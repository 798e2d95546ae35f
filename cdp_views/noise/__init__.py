"""Base noises: what a NumPyro distribution over cells is made of."""

from cdp_views.noise.parts import Parts as Parts
from cdp_views.noise.parts import parts as parts
