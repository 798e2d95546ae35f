"""Tables and datasets in, figures and files out."""

from cdp_views.report.figure import comparison_figure as comparison_figure
from cdp_views.report.files import write_csv as write_csv
from cdp_views.report.files import write_figure as write_figure
from cdp_views.report.files import write_netcdf as write_netcdf
from cdp_views.report.files import write_text as write_text
from cdp_views.report.files import write_together as write_together
from cdp_views.report.names import mechanism_name as mechanism_name
from cdp_views.report.names import noise_name as noise_name
from cdp_views.report.page import comparison_page as comparison_page
from cdp_views.report.profiles import profile_curves as profile_curves
from cdp_views.report.profiles import profile_figure as profile_figure
from cdp_views.report.queries import query_figure as query_figure
from cdp_views.report.rows import Row as Row
from cdp_views.report.rows import chance as chance
from cdp_views.report.rows import figure as figure
from cdp_views.report.rows import grouped as grouped
from cdp_views.report.rows import percent as percent
from cdp_views.report.rows import records as records
from cdp_views.report.study_page import study_page as study_page

__all__ = [
    "Row",
    "chance",
    "figure",
    "grouped",
    "mechanism_name",
    "noise_name",
    "percent",
    "records",
    "comparison_figure",
    "comparison_page",
    "profile_curves",
    "profile_figure",
    "query_figure",
    "study_page",
    "write_csv",
    "write_figure",
    "write_netcdf",
    "write_text",
    "write_together",
]
