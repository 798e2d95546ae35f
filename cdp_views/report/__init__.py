"""Tables and datasets in, figures and files out."""

from cdp_views.report.figure import comparison_figure as comparison_figure
from cdp_views.report.files import write_csv as write_csv
from cdp_views.report.files import write_figure as write_figure
from cdp_views.report.files import write_netcdf as write_netcdf
from cdp_views.report.files import write_together as write_together

__all__ = ["comparison_figure", "write_csv", "write_figure", "write_netcdf", "write_together"]
