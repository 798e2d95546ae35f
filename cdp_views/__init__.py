"""Differential privacy with exact totals: three views of constrained noise for NumPyro.

Public names are loaded on first use (PEP 562): `import cdp_views` costs milliseconds, not the
seconds that NumPyro takes. No public function carries the name of a room (a module of this
package): importing a room binds its name here and would hide the function.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import datasets as datasets
    from . import worlds as worlds
    from ._checks import InfeasibleError as InfeasibleError
    from ._checks import UnsupportedError as UnsupportedError
    from .calibration import Budget as Budget
    from .calibration import calibrate as calibrate
    from .calibration import design as design
    from .calibration import equal_profile as equal_profile
    from .inference import diagnose as diagnose
    from .inference import log_likelihood_by_group as log_likelihood_by_group
    from .inference import naive_and_aware as naive_and_aware
    from .inference import naive_and_aware_figure as naive_and_aware_figure
    from .inference import rank_figure as rank_figure
    from .inference import simulation_based_calibration as simulation_based_calibration
    from .inference import summarise as summarise
    from .inference import to_datatree as to_datatree
    from .invariants import bounds as bounds
    from .invariants import linear as linear
    from .invariants import margins as margins
    from .invariants import nonnegative as nonnegative
    from .invariants import totals as totals
    from .maxent import MaxEntropySolution as MaxEntropySolution
    from .maxent import balance as balance
    from .maxent import level_errors as level_errors
    from .maxent import level_scales as level_scales
    from .maxent import solve_max_entropy as solve_max_entropy
    from .maxent import unbalanced_chance as unbalanced_chance
    from .neighbours import additions as additions
    from .neighbours import differences as differences
    from .neighbours import exchanges as exchanges
    from .neighbours import households as households
    from .neighbours import moves as moves
    from .neighbours import relocations as relocations
    from .neighbours import replacements as replacements
    from .neighbours import series as series
    from .noise import DiscreteLaplace as DiscreteLaplace
    from .noise import DiscreteNormal as DiscreteNormal
    from .noise import ScaleMixture as ScaleMixture
    from .privacy import audit as audit
    from .privacy import compose as compose
    from .privacy import prior_to_posterior as prior_to_posterior
    from .privacy import privacy_loss as privacy_loss
    from .releases import Ledger as Ledger
    from .releases import Mechanism as Mechanism
    from .releases import Observed as Observed
    from .releases import Release as Release
    from .releases import ReleasedParts as ReleasedParts
    from .releases import read_parts as read_parts
    from .releases import read_published as read_published
    from .releases import read_release as read_release
    from .releases import release as release
    from .releases import release_parts as release_parts
    from .releases import structural_zeros as structural_zeros
    from .report import profile_curves as profile_curves
    from .report import profile_figure as profile_figure
    from .study import Comparison as Comparison
    from .study import Study as Study
    from .study import compare as compare
    from .study import read_study as read_study
    from .support import AffineSubspace as AffineSubspace
    from .support import ContinuousPoisson as ContinuousPoisson
    from .support import NonnegativeTotals as NonnegativeTotals
    from .support import Restricted as Restricted
    from .usefulness import utility as utility
    from .views import Conditioned as Conditioned
    from .views import Imaged as Imaged
    from .views import MaxEntropy as MaxEntropy
    from .views import observe_imaged as observe_imaged
    from .views import observe_max_entropy as observe_max_entropy

__version__ = "0.1.0"

_ROOM_OF = {
    "totals": "invariants",
    "linear": "invariants",
    "margins": "invariants",
    "bounds": "invariants",
    "nonnegative": "invariants",
    "AffineSubspace": "support",
    "NonnegativeTotals": "support",
    "Restricted": "support",
    "ContinuousPoisson": "support",
    "DiscreteLaplace": "noise",
    "DiscreteNormal": "noise",
    "MaxEntropy": "views",
    "observe_imaged": "views",
    "observe_max_entropy": "views",
    "Conditioned": "views",
    "Imaged": "views",
    "solve_max_entropy": "maxent",
    "MaxEntropySolution": "maxent",
    "balance": "maxent",
    "level_errors": "maxent",
    "level_scales": "maxent",
    "unbalanced_chance": "maxent",
    "ScaleMixture": "noise",
    "relocations": "neighbours",
    "series": "neighbours",
    "households": "neighbours",
    "moves": "neighbours",
    "replacements": "neighbours",
    "additions": "neighbours",
    "differences": "neighbours",
    "exchanges": "neighbours",
    "audit": "privacy",
    "privacy_loss": "privacy",
    "compose": "privacy",
    "prior_to_posterior": "privacy",
    "profile_curves": "report",
    "profile_figure": "report",
    "utility": "usefulness",
    "calibrate": "calibration",
    "design": "calibration",
    "equal_profile": "calibration",
    "Budget": "calibration",
    "compare": "study",
    "Comparison": "study",
    "Study": "study",
    "read_study": "study",
    "release": "releases",
    "release_parts": "releases",
    "read_parts": "releases",
    "ReleasedParts": "releases",
    "read_published": "releases",
    "read_release": "releases",
    "Release": "releases",
    "Ledger": "releases",
    "structural_zeros": "releases",
    "Mechanism": "releases",
    "Observed": "releases",
    "to_datatree": "inference",
    "diagnose": "inference",
    "summarise": "inference",
    "simulation_based_calibration": "inference",
    "naive_and_aware": "inference",
    "rank_figure": "inference",
    "naive_and_aware_figure": "inference",
    "log_likelihood_by_group": "inference",
    "UnsupportedError": "_checks",
    "InfeasibleError": "_checks",
}

_MODULES = ("datasets", "worlds")

__all__ = ["__version__", *_MODULES, *_ROOM_OF]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_ROOM_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
