"""Cryptographic random bits as a pure function of (key, counter), for whole arrays at once."""

import numpy as np

NAME = "aes256-cbc-mac"


def bits(key: bytes, counters: np.ndarray) -> np.ndarray:
    """Four words of 64 random bits for each counter (a, b, c, d), of AES-256 as a block cipher E:

    E(E(a, b) ⊕ (2c, d)) and E(E(a, b) ⊕ (2c + 1, d)): the CBC-MAC of two blocks, each message of
    the same length, which is a pseudo-random function if AES is one (Bellare, Kilian and Rogaway
    2000); m counters are told from true random bits with an
    advantage of at most 24 m²/2¹²⁸, which is 2⁻⁵¹ for m = 2³⁶.

    Args:
        key: 32 bytes, the secret.
        counters: (4, m) uint64, all different, the third below 2⁶³.

    Returns:
        (4, m) uint64.

    Raises:
        ValueError: the extra `secure` is not installed, or a key of another size.

    Example:
        >>> import numpy as np
        >>> a = bits(bytes(32), np.arange(8, dtype=np.uint64).reshape(4, 2))
        >>> a.shape, bool((a[:, :1] == bits(bytes(32), np.array([[0], [2], [4], [6]], "u8"))).all())
        ((4, 2), True)

    Reference: FIPS 197 (AES); Bellare, Kilian and Rogaway 2000, Theorem 3.
    """
    require()
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    if len(key) != 32:
        raise ValueError(f"`key` must have 32 bytes; got {len(key)}.")
    # Each block on its own (ECB) is the cipher itself; chaining is done here, for all at once.
    cipher = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()

    def encrypt(blocks: np.ndarray) -> np.ndarray:
        there = np.ascontiguousarray(blocks, dtype="<u8")
        return np.frombuffer(cipher.update(there.tobytes()), dtype="<u8").reshape(there.shape)

    a, b, c, d = np.asarray(counters, dtype=np.uint64)
    first = encrypt(np.stack([a, b], axis=1))
    twice = c << np.uint64(1)
    halves = [
        encrypt(np.stack([first[:, 0] ^ (twice | np.uint64(half)), first[:, 1] ^ d], axis=1))
        for half in (0, 1)
    ]
    return np.concatenate(halves, axis=1).T.astype(np.uint64)


def require() -> None:
    """Raise unless the extra is there."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise ValueError(
            "`bits` \"aes256\" needs the extra secure: pip install 'cdp-views[secure]'."
        ) from None
