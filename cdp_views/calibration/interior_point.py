"""The smallest worst loss within G(ν) under promised variances, by an interior-point method."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

_GAP = 1e-7  # of the answer: what duality leaves undecided
_GROWTH = 8.0
_MOST_STEPS = 60
_CENTRED = 1e-8
_RIDGE = 1e-14


@dataclass(frozen=True, eq=False)
class Program:
    """min τ over η > 0 with a_v·η ≤ τ for all v, and w_r Σ(η) w_rᵀ + e_r·(1/η) ≤ t_r for all r.

    Σ(η) = K(Kᵀ diag(η) K)⁻¹Kᵀ. Convex: Σ(η) is a matrix-convex function of η.

    Args:
      basis: K (n, d), orthonormal.
      losses: (m, n) sparse, a_v ≥ 0: the loss of each difference, μ² = a_v·η.
      rows: w (r, n), the numbers whose variances are promised.
      extra: e (r, n) sparse, ≥ 0, variance that does not come from Σ.
      promised: t (r,) > 0.
    """

    basis: np.ndarray
    losses: sparse.csr_array
    rows: np.ndarray
    extra: sparse.csr_array
    promised: np.ndarray

    @property
    def alone(self) -> np.ndarray:
        """In how many promises 1/η_i stands by itself, (n,)."""
        return np.bincount(self.extra.indices, minlength=len(self.basis)).astype(float)

    def covariance(self, eta: np.ndarray) -> np.ndarray:
        """Σ(η) (n, n)."""
        inner = self.basis.T @ (eta[:, None] * self.basis)
        # SciPy's triangular solver takes milliseconds for a small matrix on busy cores
        half = np.linalg.inv(np.linalg.cholesky(inner)) @ self.basis.T
        return half.T @ half

    def variances(self, eta: np.ndarray) -> np.ndarray:
        """The variance of every promised number (r,)."""
        spread = self.covariance(eta) @ self.rows.T
        return np.sum(self.rows.T * spread, axis=0) + self.extra @ (1 / eta)


class Optimum(NamedTuple):
    """η (n,), τ, and −∂τ/∂t_r (r,), the multiplier of every promise."""

    eta: np.ndarray
    loss: float
    multiplier: np.ndarray


def solve(program: Program, start: np.ndarray) -> Optimum:
    """Newton's method along the central path of a self-concordant barrier.

    With M = Kᵀ diag(η) K, −log(t − wM⁻¹wᵀ) − log det M is minus the log-determinant of the matrix
    [[t, w], [wᵀ, M]], which is positive exactly where the promise is kept; without its second term
    Newton's steps stall. A term e/η counts as one more row of M.

    Args:
      program: what to minimise.
      start: (n,) positive; it is scaled until it keeps the promises.

    Raises:
      ValueError: a direction in which the loss falls for ever, or numbers too far apart.

    Reference: Boyd and Vandenberghe 2004, "Convex optimization", §11.3 and §3.1.7 (matrix-
    fractional functions); the multiplier is 1/(s·slack) on the path.
    """
    eta = start * (2 * np.max(program.variances(start) / program.promised))
    tau = 2 * float(np.max(program.losses @ eta))
    promises = len(program.promised)
    count = (
        program.losses.shape[0]
        + promises * (1 + program.basis.shape[1])
        + len(eta)
        + program.extra.nnz
    )
    sharpness = count / tau
    while True:
        eta, tau = _centre(program, eta, tau, sharpness)
        if count <= _GAP * sharpness * tau:
            break
        sharpness *= _GROWTH
    multiplier = 1 / (sharpness * (program.promised - program.variances(eta)))
    return Optimum(eta, float(np.max(program.losses @ eta)), multiplier)


def _centre(
    program: Program, eta: np.ndarray, tau: float, sharpness: float
) -> tuple[np.ndarray, float]:
    n = len(eta)
    bars = sparse.csr_array(sparse.hstack([program.losses, -np.ones((program.losses.shape[0], 1))]))
    for _ in range(_MOST_STEPS):
        sigma = program.covariance(eta)
        spread = sigma @ program.rows.T
        slack = program.promised - np.sum(program.rows.T * spread, 0) - program.extra @ (1 / eta)
        room = tau - program.losses @ eta
        inverse = 1 / slack
        # variances fall as precisions rise: d(w Σ w)/dη = −(Σw)², d²(w Σ w)/dη² = 2 (Σw)(Σw)ᵀ ∘ Σ
        slope = -(spread**2) - (program.extra * (1 / eta**2)).T.toarray()
        volume, alone = len(slack), 1 + program.alone
        gradient = np.append(
            slope @ inverse - alone / eta - volume * np.diag(sigma), sharpness
        ) + bars.T @ (1 / room)
        hessian = (bars.T @ sparse.diags_array(1 / room**2) @ bars).toarray()
        own = hessian[:n, :n]  # a view
        own += (slope * inverse**2) @ slope.T + 2 * sigma * ((spread * inverse) @ spread.T)
        own += volume * sigma**2
        own[np.diag_indices(n)] += alone / eta**2 + 2 * (program.extra.T @ inverse) / eta**3
        unit = 1 / np.sqrt(np.diag(hessian))
        scaled = hessian * np.outer(unit, unit)
        scaled[np.diag_indices(n + 1)] += _RIDGE
        step = -unit * np.linalg.solve(scaled, unit * gradient)
        decrement = float(-gradient @ step)
        if decrement < _CENTRED:
            break
        length = _inside(eta, step[:n])
        before = _barrier(program, eta, tau, sharpness)
        while length > 1e-9:
            new_eta, new_tau = eta + length * step[:n], tau + length * float(step[n])
            after = _barrier(program, new_eta, new_tau, sharpness)
            if after <= before - 0.1 * length * decrement:
                break
            length *= 0.5
        else:  # what is left is rounding
            break
        eta, tau = new_eta, new_tau
    return eta, tau


def _inside(eta: np.ndarray, step: np.ndarray) -> float:
    """The longest step, at most 1, that keeps η positive."""
    falls = step < 0
    return float(min(1.0, 0.99 * np.min(-eta[falls] / step[falls], initial=np.inf)))


def _barrier(program: Program, eta: np.ndarray, tau: float, sharpness: float) -> float:
    room = np.asarray(tau - program.losses @ eta)
    if room.min() <= 0 or eta.min() <= 0:
        return np.inf
    slack = program.promised - program.variances(eta)
    if slack.min() <= 0:
        return np.inf
    inner = program.basis.T @ (eta[:, None] * program.basis)
    volume = len(slack) * 2 * np.log(np.diag(np.linalg.cholesky(inner))).sum()
    heights = (1 + program.alone) @ np.log(eta)
    return sharpness * tau - np.log(room).sum() - np.log(slack).sum() - heights - volume
