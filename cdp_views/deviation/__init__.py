"""Laws of the error that a release makes in a set of queries (host float64 numbers)."""

from cdp_views.deviation._base import Deviation as Deviation
from cdp_views.deviation.laplace import LaplaceDeviation as LaplaceDeviation
from cdp_views.deviation.normal import NormalDeviation as NormalDeviation
from cdp_views.deviation.sampled import SampledDeviation as SampledDeviation
from cdp_views.deviation.whole import WholeDeviation as WholeDeviation

__all__ = ["Deviation", "LaplaceDeviation", "NormalDeviation", "SampledDeviation", "WholeDeviation"]
