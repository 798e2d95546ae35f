"""Which generators of random bits there are for a noise, asked before anything is spent."""

from cdp_views import _checks
from cdp_views.invariants import Invariant
from cdp_views.releases.noise import aes
from cdp_views.releases.noise.secret import GENERATORS, NO_KEY


def check_generator(bits: str, view: str, noise: str, invariant: Invariant) -> None:
    """Refuse what this generator can't draw, or what isn't installed.

    Args:
        bits: its name, as in `cdp.release`.
        view: of the noise.
        noise: its family.
        invariant: what must hold exactly.

    Raises:
        ValueError: another name, or the extra `secure` is missing.
        UnsupportedError: noise that JAX draws for the whole table, which has no other generator.

    Example:
        >>> import cdp_views as cdp
        >>> check_generator("threefry", "imaged", "normal", cdp.totals(["a", "a"]))
    """
    _checks.choice("bits", bits, GENERATORS)
    if bits == "threefry":
        return
    aes.require()
    if (view, noise) == ("conditioned", "laplace") and invariant.disjoint_groups is None:
        raise _checks.UnsupportedError(NO_KEY)
