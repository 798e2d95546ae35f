"""Finitely many possible worlds: what revision and update do to a belief, in the open."""

from cdp_views.worlds.belief import Belief as Belief
from cdp_views.worlds.closest import closest as closest
