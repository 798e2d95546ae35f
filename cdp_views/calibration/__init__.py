"""From a privacy budget to a scale."""

from cdp_views.calibration.calibrate import calibrate as calibrate
