"""The maximum-entropy problem itself: precisions, feasibility, certificate, correlation."""

from cdp_views.maxent.chance import Chance as Chance
from cdp_views.maxent.chance import unbalanced_chance as unbalanced_chance
from cdp_views.maxent.feasibility import Feasibility as Feasibility
from cdp_views.maxent.feasibility import balance as balance
from cdp_views.maxent.hierarchy import LevelScales as LevelScales
from cdp_views.maxent.hierarchy import level_errors as level_errors
from cdp_views.maxent.hierarchy import level_scales as level_scales
from cdp_views.maxent.solution import MaxEntropySolution as MaxEntropySolution
from cdp_views.maxent.solution import solve_max_entropy as solve_max_entropy
