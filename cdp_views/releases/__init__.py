"""A confidential table in, a private table with exact totals out, and the way back to a model."""

from cdp_views.releases.budget.ledger import Ledger as Ledger
from cdp_views.releases.files import read_release as read_release
from cdp_views.releases.mechanism import Mechanism as Mechanism
from cdp_views.releases.observed import Observed as Observed
from cdp_views.releases.parts.release_parts import release_parts as release_parts
from cdp_views.releases.parts.released import ReleasedParts as ReleasedParts
from cdp_views.releases.parts.released import read_parts as read_parts
from cdp_views.releases.published import read_published as read_published
from cdp_views.releases.release import release as release
from cdp_views.releases.result import Release as Release
from cdp_views.releases.zeros import structural_zeros as structural_zeros
