"""The maximum-entropy paper's own algorithms, for comparison and teaching; never used by a view.

Plain NumPy, one algorithm a file, each step as in the paper. `solve_max_entropy` gives the exact
answer that they approach.
"""

from cdp_views.maxent.reference.alternating import (
    alternating_projections as alternating_projections,
)
from cdp_views.maxent.reference.alternating import dykstra as dykstra
from cdp_views.maxent.reference.gradient import penalty_path as penalty_path
from cdp_views.maxent.reference.gradient import projected_gradient as projected_gradient
from cdp_views.maxent.reference.nearest import correlation_or_nearest as correlation_or_nearest
from cdp_views.maxent.reference.nearest import nearest_correlation as nearest_correlation
from cdp_views.maxent.reference.planar import planar_correlation as planar_correlation
from cdp_views.maxent.reference.planar import planar_vectors as planar_vectors
from cdp_views.maxent.reference.result import ReferenceResult as ReferenceResult
from cdp_views.maxent.reference.sensitivity import h_block as h_block
from cdp_views.maxent.reference.sensitivity import paper_sensitivity as paper_sensitivity
