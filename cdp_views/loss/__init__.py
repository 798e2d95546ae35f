"""Laws of the privacy loss: host numbers in float64, never JAX."""

from cdp_views.loss.base import Loss as Loss
from cdp_views.loss.bounded import BoundedLoss as BoundedLoss
from cdp_views.loss.composed import at_worst as at_worst
from cdp_views.loss.composed import compose_losses as compose_losses
from cdp_views.loss.conversions import TailBoundPrice as TailBoundPrice
from cdp_views.loss.conversions import delta_of_renyi as delta_of_renyi
from cdp_views.loss.conversions import delta_of_rho as delta_of_rho
from cdp_views.loss.conversions import epsilon_of_renyi as epsilon_of_renyi
from cdp_views.loss.conversions import epsilon_of_rho as epsilon_of_rho
from cdp_views.loss.conversions import rho_for as rho_for
from cdp_views.loss.conversions import tail_bound_price as tail_bound_price
from cdp_views.loss.gaussian import GaussianLoss as GaussianLoss
from cdp_views.loss.gaussian_dp import analytic_gaussian_mu as analytic_gaussian_mu
from cdp_views.loss.gaussian_dp import delta_of_mu as delta_of_mu
from cdp_views.loss.gaussian_dp import epsilon_of_mu as epsilon_of_mu
from cdp_views.loss.gaussian_dp import tail_bound_mu as tail_bound_mu
from cdp_views.loss.nested import NestedLoss as NestedLoss
from cdp_views.loss.profile import ProfileLoss as ProfileLoss
from cdp_views.loss.pure import mu_of_pure as mu_of_pure
from cdp_views.loss.pure import renyi_of_pure as renyi_of_pure
from cdp_views.loss.pure import rho_of_pure as rho_of_pure
from cdp_views.loss.sampled import SampledLoss as SampledLoss
