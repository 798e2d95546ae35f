"""Mechanisms side by side at equal privacy."""

from cdp_views.study.comparing import compare as compare
from cdp_views.study.comparison import Comparison as Comparison

__all__ = ["Comparison", "compare"]
