"""From a privacy budget to a scale."""

from cdp_views.calibration.budget import Budget as Budget
from cdp_views.calibration.calibrating import calibrate as calibrate
from cdp_views.calibration.designing import Design as Design
from cdp_views.calibration.designing import design as design
from cdp_views.calibration.equal import EqualProfile as EqualProfile
from cdp_views.calibration.equal import equal_profile as equal_profile
