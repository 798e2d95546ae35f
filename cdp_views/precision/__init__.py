"""Arrays in, arrays out: the precisions that give every cell its variance under exact totals."""

from cdp_views.precision.scalar import Balance as Balance
from cdp_views.precision.scalar import balance_totals as balance_totals
