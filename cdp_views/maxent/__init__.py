"""The maximum-entropy problem itself: precisions, feasibility, certificate, correlation."""

from cdp_views.maxent.solution import MaxEntropySolution as MaxEntropySolution
from cdp_views.maxent.solution import solve_max_entropy as solve_max_entropy
