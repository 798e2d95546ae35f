"""Numbers from words of 64 random bits, the same everywhere."""

import numpy as np


def uniform(words: np.ndarray) -> np.ndarray:
    """Uniform numbers strictly between 0 and 1, on the odd multiples of 2⁻⁵³."""
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def low_half(words: np.ndarray) -> np.ndarray:
    """The lower 32 bits of words of 64."""
    return words.astype(np.uint32)  # wraps around
