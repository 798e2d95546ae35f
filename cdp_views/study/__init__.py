"""Mechanisms side by side at equal privacy, at one budget or swept over many."""

from cdp_views.study.comparing import compare as compare
from cdp_views.study.comparison import Comparison as Comparison
from cdp_views.study.plan import Study as Study
from cdp_views.study.tree import read_study as read_study

__all__ = ["Comparison", "Study", "compare", "read_study"]
