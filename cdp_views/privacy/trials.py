"""Many runs of a mechanism on a table and on its neighbour, and the tests tried on them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from scipy import sparse

from cdp_views.privacy.distinguishers import Statistic, Watched, black_box, threshold_tests
from cdp_views.privacy.error_rates import ErrorRates

_AT_ONCE = 2**22  # numbers in memory: 32 MiB
_THRESHOLDS = 60
_FAR = 1e4  # a log-density ratio beyond it settles the matter
_RATIO = "log-density ratio"


@dataclass(frozen=True, eq=False)
class Source:
    """A mechanism that can be run.

    Args:
      draw: (key, moved, size) ↦ releases (size, n) of loc + moved, on the host in float64, and how
        many of them break a total.
      loc: (n,) true answers.
      ratio: (y, moved) ↦ log p(y − moved) − log p(y), p the law of releases of loc; or None.
      query: (r, n) combinations that are published instead of the cells, or None.
    """

    draw: Callable[[Any, np.ndarray, int], tuple[np.ndarray, int]]
    loc: np.ndarray
    ratio: Callable[[np.ndarray, np.ndarray], np.ndarray] | None
    query: sparse.csr_array | None

    def see(self, noise: np.ndarray) -> np.ndarray:
        """What is published of y − loc (…, n): all of it, or the query."""
        return noise if self.query is None else noise @ self.query.T

    def look(
        self, key: Any, moved: np.ndarray, watched: Watched, draws: int, *, there: bool
    ) -> "Trials":
        """Run it `draws` times on loc, or `there` on loc + moved, in batches that fit in memory."""
        n = len(self.loc)
        batches = -(-draws * n // _AT_ONCE)
        size = -(-draws // batches)
        seen, ratios, broken = [], [], 0
        for batch in jax.random.split(key, batches):
            y, bad = self.draw(batch, moved if there else np.zeros(n), size)
            seen.append(watched.see(self.see(y - self.loc)))
            broken += bad
            if self.ratio is not None:
                ratios.append(np.clip(self.ratio(y, moved), -_FAR, _FAR))
        ratio = np.concatenate(ratios)[:draws] if ratios else None
        return Trials(np.concatenate(seen)[:draws], ratio, broken)


@dataclass(frozen=True, eq=False)
class Trials:
    """What was kept of the runs on one table: watched numbers, log-density ratios, breaches."""

    seen: np.ndarray
    ratio: np.ndarray | None
    broken: int


class Contest:
    """Tests chosen on the first half of the runs and counted on the second."""

    def __init__(self, table: Trials, neighbour: Trials, watched: Watched) -> None:
        draws = len(table.seen)
        self.half = draws // 2
        first = slice(0, self.half)
        statistics: dict[str, Statistic] = black_box(
            table.seen[first], neighbour.seen[first], watched
        )
        self._table = {name: s(table.seen) for name, s in statistics.items()}
        self._neighbour = {name: s(neighbour.seen) for name, s in statistics.items()}
        if table.ratio is not None and neighbour.ratio is not None:
            self._table[_RATIO], self._neighbour[_RATIO] = table.ratio, neighbour.ratio
        self._tests = threshold_tests(
            {name: x[first] for name, x in self._table.items()},
            {name: x[first] for name, x in self._neighbour.items()},
            _THRESHOLDS,
        )

    def choose(
        self, score: Callable[[np.ndarray, np.ndarray], np.ndarray], count: int
    ) -> list[tuple[str, ErrorRates]]:
        """The tests of highest score on the first half, with their errors on the second.

        `score` takes false positives and negatives of all tests. The statistic of the best test is
        kept, and of each of `count` ranges of its thresholds the best one.
        """
        a, b = (np.array([test[i] for test in self._tests], dtype=float) for i in (2, 3))
        points = score(a, b)
        name = self._tests[int(np.argmax(points))][0]
        own = np.array([i for i, test in enumerate(self._tests) if test[0] == name])
        best = [part[np.argmax(points[part])] for part in np.array_split(own, count) if part.size]
        return [(name, self._count(name, self._tests[i][1])) for i in best]

    def _count(self, name: str, threshold: float) -> ErrorRates:
        here, there = (x[name][self.half :] for x in (self._table, self._neighbour))
        return ErrorRates(int(np.sum(here > threshold)), int(np.sum(there <= threshold)), len(here))
