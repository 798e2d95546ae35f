"""Random bits as a pure function of (key, counter), for whole arrays at once."""

import numpy as np

NAME = "threefry4x64-20"
_ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
_PARITY = np.uint64(0x1BD11BDAA9FC1A22)
_ROUNDS = 20
CHUNK = 16384  # counters at a time, so that the four words stay in the processor's cache


def bits(key: bytes, counters: np.ndarray, rounds: int = _ROUNDS) -> np.ndarray:
    """Four words of 64 random bits for each counter.

    Args:
        key: 32 bytes, the secret.
        counters: (4, m) uint64, all different: equal counters have equal bits.
        rounds: a multiple of 4; from 12 on all known tests are passed, 20 are for secrets.

    Returns:
        (4, m) uint64.

    Example:
        >>> import numpy as np
        >>> hex(bits(bytes(32), np.zeros((4, 1), np.uint64))[0, 0])
        '0x9218ebde6c85537'

    Reference: Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
    """
    words = np.frombuffer(key, dtype="<u8").astype(np.uint64)
    if words.size != 4:
        raise ValueError(f"`key` must have 32 bytes; got {len(key)}.")
    schedule = [*words, np.bitwise_xor.reduce(words) ^ _PARITY]
    out = np.array(counters, dtype=np.uint64)
    spare = np.empty(min(CHUNK, out.shape[1]), dtype=np.uint64)
    for start in range(0, out.shape[1], CHUNK):
        part = out[:, start : start + CHUNK]
        _block(schedule, part, spare[: part.shape[1]], rounds)
    return out


def _block(schedule: list[np.uint64], counters: np.ndarray, spare: np.ndarray, rounds: int) -> None:
    x = list(counters)  # four words, worked on in place
    for i in range(4):
        x[i] += schedule[i]
    for step in range(rounds):
        first, second = _ROTATIONS[step % 8]
        # mix (0, 1) and (2, 3), then (0, 3) and (2, 1): Skein's permutation of the words
        one, three = (1, 3) if step % 2 == 0 else (3, 1)
        _mix(x[0], x[one], first, spare)
        _mix(x[2], x[three], second, spare)
        if step % 4 == 3:
            turn = (step + 1) // 4
            for i in range(4):
                x[i] += schedule[(turn + i) % 5]
            x[3] += np.uint64(turn)


def _mix(a: np.ndarray, b: np.ndarray, rotation: int, spare: np.ndarray) -> None:
    """a ← a + b, b ← rotate(b) ⊕ a, in place; uint64 arrays wrap around without a warning."""
    a += b
    np.right_shift(b, np.uint64(64 - rotation), out=spare)
    b <<= np.uint64(rotation)
    b |= spare
    b ^= a
