"""The secret of one release: drawn from the operating system, used once, then destroyed."""

import secrets
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import final

import jax
import numpy as np
from jax import Array

from cdp_views._checks import UnsupportedError
from cdp_views.releases.noise import aes, threefry

_SIZE = 32
DRAW = 2
"""Raised whenever the same secret would draw other noise: no release goes on across that."""
NO_KEY = (
    '`bits` "aes256" is for noise that is drawn cell by cell; Laplace noise given overlapping '
    'totals is drawn for the whole table by JAX, whose keys hold 64 bits. Use bits="threefry", the '
    "imaged view, or whole or Normal noise."
)
GENERATORS = {"threefry": threefry, "aes256": aes}


@final
@dataclass(frozen=True, eq=False)
class Secret:
    """The root of all random bits of one release: 256 bits that nobody chose.

    Bits are a function of (root, id, purpose, round): a cell keeps its noise in a second try, and
    in whatever part of the table it lies. Printing or pickling never shows the root.

    Args:
        root: 32 bytes.
        bits: "threefry", fast and well tested, or "aes256", a cryptographic generator (extra
            `secure`).
    """

    root: bytes = field(repr=False)
    bits: str = "threefry"

    def __post_init__(self) -> None:
        if len(self.root) != _SIZE:
            raise ValueError(f"`root` must have {_SIZE} bytes; got {len(self.root)}.")

    def __reduce__(self) -> str:
        raise TypeError("a release's secret is not pickled: it lies in its own file only")

    def words(self, ids: np.ndarray, purpose: int, rounds: int | np.ndarray = 0) -> np.ndarray:
        """Four words of random bits, (4, m) uint64, for every id (2, m).

        Args:
            ids: (2, m), of cells or groups.
            purpose: what for, below 2³²: bits of different purposes have nothing in common.
            rounds: which try it is, or (m,) of them.
        """
        counters = np.empty((4, ids.shape[1]), dtype=np.uint64)
        counters[:2] = ids
        counters[2], counters[3] = purpose, rounds
        return GENERATORS[self.bits].bits(self.root, counters)

    def key(self, rounds: int = 0) -> Array:
        """A JAX key, for laws that are drawn for the whole table at once; it holds 64 bits."""
        if self.bits != "threefry":
            raise UnsupportedError(NO_KEY)
        own = blake2b(rounds.to_bytes(8, "little"), key=self.root, digest_size=8, person=b"jax")
        words = np.frombuffer(own.digest(), dtype=np.uint32)
        # The generator by name: a session's default (jax_default_prng_impl) may be another.
        return jax.random.wrap_key_data(jax.numpy.asarray(words), impl="threefry2x32")

    @property
    def generator(self) -> str:
        """What the metadata call it."""
        return GENERATORS[self.bits].NAME

    def digest(self, counts: np.ndarray, request: str) -> str:
        """What binds this secret to one input: keyed BLAKE2b, which tells nobody else anything.

        The same noise on other counts would publish the change.
        """
        own = blake2b(key=self.root, digest_size=32, person=b"input")
        own.update(request.encode() + b"\0")
        own.update(np.ascontiguousarray(counts, dtype="<f8").tobytes())
        return own.hexdigest()


def fresh_secret() -> Secret:
    """A secret that nobody can ask for again."""
    return Secret(secrets.token_bytes(_SIZE))
