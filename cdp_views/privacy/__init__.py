"""What a release gives away."""

from cdp_views.privacy.audited import Audit as Audit
from cdp_views.privacy.auditing import audit as audit
from cdp_views.privacy.composition import compose as compose
from cdp_views.privacy.evaluate import privacy_loss as privacy_loss
from cdp_views.privacy.result import PrivacyLoss as PrivacyLoss
from cdp_views.privacy.semantics import PriorToPosterior as PriorToPosterior
from cdp_views.privacy.semantics import prior_to_posterior as prior_to_posterior
from cdp_views.privacy.worst import WorstDifference as WorstDifference
