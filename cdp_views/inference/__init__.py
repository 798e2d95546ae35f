"""From posterior draws to what may be said: labelled trees, diagnoses, summaries, calibration."""

from cdp_views.inference.calibrated import Ranks as Ranks
from cdp_views.inference.calibrated import (
    simulation_based_calibration as simulation_based_calibration,
)
from cdp_views.inference.contrast import naive_and_aware as naive_and_aware
from cdp_views.inference.diagnosis import Diagnosis as Diagnosis
from cdp_views.inference.diagnosis import diagnose as diagnose
from cdp_views.inference.figures import naive_and_aware_figure as naive_and_aware_figure
from cdp_views.inference.figures import rank_figure as rank_figure
from cdp_views.inference.many import run_many as run_many
from cdp_views.inference.pointwise import log_likelihood_by_group as log_likelihood_by_group
from cdp_views.inference.summary import summarise as summarise
from cdp_views.inference.tree import to_datatree as to_datatree

__all__ = [
    "to_datatree",
    "log_likelihood_by_group",
    "diagnose",
    "Diagnosis",
    "summarise",
    "run_many",
    "simulation_based_calibration",
    "Ranks",
    "rank_figure",
    "naive_and_aware",
    "naive_and_aware_figure",
]
