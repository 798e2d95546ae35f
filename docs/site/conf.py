"""Sphinx's settings; `build.py` beside this file puts the pages together and runs it."""

import sys
from pathlib import Path

from cdp_views import __version__

sys.path.insert(0, str(Path(__file__).parent))  # the extension `links`

project = "cdp_views"
version = release = __version__
html_title = "cdp_views"
html_show_copyright = False
root_doc = "index"
extensions = ["myst_nb", "links"]

myst_enable_extensions = ["fieldlist"]
myst_heading_anchors = 3
suppress_warnings = [
    "myst.header",  # written tables begin below their level
    "misc.highlighting_failure",  # ```csv has no colours, and needs none
]
nb_execution_mode = "off"  # `build.py` is given executed copies; nothing is run twice
nb_output_stderr = "remove"  # what libraries say about progress bars, with local paths
nb_merge_streams = True
highlight_language = "none"
smartquotes_action = "D"  # dashes only: "couple" is a string to type
python_maximum_signature_line_length = 88
python_display_short_literal_types = True
add_module_names = False
toc_object_entries = False

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_copy_source = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#00795a",
        "color-brand-content": "#0072b2",
        "font-stack": "system-ui, -apple-system, 'Segoe UI', sans-serif",
    },
    "dark_css_variables": {
        "color-brand-primary": "#4cc9a4",
        "color-brand-content": "#6cb8ee",
    },
}
