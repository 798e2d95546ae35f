"""Laws of the privacy loss: host numbers in float64, never JAX."""

from cdp_views.loss.base import Loss as Loss
from cdp_views.loss.bounded import BoundedLoss as BoundedLoss
from cdp_views.loss.gaussian import GaussianLoss as GaussianLoss
from cdp_views.loss.gaussian_dp import analytic_gaussian_mu as analytic_gaussian_mu
from cdp_views.loss.gaussian_dp import delta_of_mu as delta_of_mu
from cdp_views.loss.gaussian_dp import epsilon_of_mu as epsilon_of_mu
from cdp_views.loss.gaussian_dp import tail_bound_mu as tail_bound_mu
from cdp_views.loss.profile import ProfileLoss as ProfileLoss
from cdp_views.loss.sampled import SampledLoss as SampledLoss
