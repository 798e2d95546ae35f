"""What each view says about its law, against dense algebra and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from cdp_views._checks import InfeasibleError, UnsupportedError

pytestmark = pytest.mark.usefixtures("float64")


def accepted(make, scale):
    if make.takes(scale):
        return make.view(scale=scale)
    with pytest.raises((UnsupportedError, InfeasibleError)):
        make.view(scale=scale)
    return None


@pytest.mark.parametrize("which", ["number", "cells"])
def test_moments_density_and_entropy(make, scales, loc, which, basis_of):
    scale = scales[which]
    view = accepted(make, scale)
    if view is None:
        return
    want, K = make.covariance(scale), basis_of(view.invariant)
    assert_allclose(view.covariance_matrix, want, atol=1e-9)
    assert_allclose(view.variance, np.diag(want), atol=1e-9)
    assert_allclose(view.mean, loc)
    x = np.random.default_rng(0).normal(size=(3, 6))
    assert_allclose(view.covariance_product(x), x @ want, atol=1e-8)
    # the density of orthonormal coordinates, in a basis that is not the library's
    law = stats.multivariate_normal(np.zeros(K.shape[1]), K.T @ want @ K)
    z = law.rvs(4, random_state=1).reshape(4, -1)
    assert_allclose(view.log_prob(loc + z @ K.T), law.logpdf(z), rtol=1e-9, atol=1e-9)
    assert_allclose(view.entropy(), law.entropy(), rtol=1e-10)


def test_rotating_the_basis_changes_nothing(make, scales, loc, basis_of):
    if not make.takes(scales["cells"]):
        return
    view = make.view(scale=scales["cells"])
    K = basis_of(view.invariant)
    rotation = stats.ortho_group.rvs(K.shape[1], random_state=0) if K.shape[1] > 1 else np.eye(1)
    covariance = np.asarray(view.covariance_matrix)
    z = np.random.default_rng(2).normal(size=K.shape[1])
    for basis in (K, K @ rotation):
        x = K @ z
        law = stats.multivariate_normal(np.zeros(K.shape[1]), basis.T @ covariance @ basis)
        assert_allclose(view.log_prob(loc + x), law.logpdf(basis.T @ x), rtol=1e-9)


def test_the_noise_of_a_constant_cell_is_exactly_zero(make, scales):
    view = make.view(scale=scales["number"]) if make.takes(scales["number"]) else None
    if view is None:
        return
    noise = view.sample_noise(jax.random.key(0), (3,))
    fixed = view.invariant.determined
    assert not np.any(np.asarray(noise)[:, fixed])
    assert not np.any(np.asarray(view.variance)[fixed])


def test_weights_equal_to_precisions_turn_imaging_into_conditioning(scales, make_of):
    scale = scales["cells"]
    for inv in ("groups", "overlapping"):
        imaged = make_of("imaged", inv, (("weights", 1 / scale**2),)).view(scale=scale)
        conditioned = make_of("conditioned", inv).view(scale=scale)
        assert_allclose(imaged.covariance_matrix, conditioned.covariance_matrix, atol=1e-12)
        y = conditioned.sample(jax.random.key(0), (3,))
        assert_allclose(imaged.log_prob(y), conditioned.log_prob(y), rtol=1e-10)


def test_maximum_entropy_keeps_marginals_and_has_the_largest_entropy(scales, make_of):
    """Other laws with the same marginals: mixtures with P∘scaled, all of smaller entropy."""
    scale = scales["cells"]
    view = make_of("max-entropy", "groups").view(scale=scale)
    assert_allclose(view.variance, scale**2, rtol=1e-12)
    conditioned = make_of("conditioned", "groups").view(scale=scale)
    assert np.all(np.asarray(conditioned.variance) < scale**2)
    assert view.entropy() > conditioned.entropy()


@pytest.mark.parametrize("kind", ["conditioned", "imaged"])
@pytest.mark.parametrize("inv", ["groups", "overlapping", "nested"])
def test_another_total(kind, inv, scales, loc, make_of, basis_of):
    """Bayes with the total as an observation; the closest point for imaging."""
    make, s2 = make_of(kind, inv), scales["cells"] ** 2
    A = make.inv().matrix.toarray()
    total = A @ (loc + np.array([3.0, -1.0, 4.0, 1.0, -5.0, 9.0]))
    view = make.view(scale=scales["cells"], total=total)
    metric = s2 if kind == "conditioned" else np.ones(6)
    step = np.linalg.pinv(A * metric @ A.T, rcond=1e-10) @ (total - A @ loc)
    want = loc + metric * (A.T @ step)
    assert_allclose(view.mean, want, rtol=1e-11)
    assert_allclose(view.loc, loc)
    assert_allclose(view.covariance_matrix, make.covariance(scales["cells"]), atol=1e-10)
    draws = view.sample(jax.random.key(1), (5,))
    assert_allclose(draws @ A.T, np.tile(total, (5, 1)), rtol=1e-12)
    assert np.all(np.isfinite(view.log_prob(draws)))
    assert np.isneginf(view.log_prob(loc))
    assert_allclose(view.deviation().bias, want - loc, atol=1e-9)


def test_weighted_imaging_to_another_total(scales, loc, make_of):
    w = np.array([1.0, 2.0, 0.5, 3.0, 1.0, 0.7])
    make = make_of("imaged", "overlapping", (("weights", w),))
    A = make.inv().matrix.toarray()
    total = A @ loc + np.array([5.0, -2.0])
    want = loc + (A.T @ np.linalg.solve(A / w @ A.T, total - A @ loc)) / w
    assert_allclose(make.view(scale=scales["cells"], total=total).mean, want, rtol=1e-12)


def test_a_batch_of_totals(scales, loc, make_of):
    make = make_of("conditioned", "groups")
    totals = np.array([[245.0, 155.0], [300.0, 100.0], [0.0, 1e4]])
    view = make.view(scale=scales["cells"], total=totals)
    assert view.batch_shape == (3,)
    for i in range(3):
        assert_allclose(
            view.mean[i], make.view(scale=scales["cells"], total=totals[i]).mean, rtol=1e-12
        )


# numbers of mathematics.md, each with its derivation


def test_three_views_of_unequal_scales(make_of):
    """n = 5, σ = (1, 2, 3, 4, 6), one plain total, from the closed forms of §2."""
    import numpyro.distributions as dist

    import cdp_views as cdp

    sigma = np.array([1.0, 2.0, 3.0, 4.0, 6.0])
    s2, omega, inv = sigma**2, sigma**-2, cdp.totals([0] * 5)
    base = dist.Normal(np.zeros(5), sigma)
    conditioned, imaged, entropy = (
        cdp.Conditioned(base, inv),
        cdp.Imaged(base, inv),
        cdp.MaxEntropy(base, inv),
    )
    assert_allclose(conditioned.variance, s2 - s2**2 / s2.sum(), rtol=1e-12)
    assert_allclose(conditioned.variance, [0.9848, 3.7576, 7.7727, 12.1212, 16.3636], atol=5e-5)
    assert_allclose(imaged.variance, s2 - 2 * s2 / 5 + s2.sum() / 25, rtol=1e-12)
    assert_allclose(imaged.variance, [3.24, 5.04, 8.04, 12.24, 24.24], atol=1e-12)
    assert_allclose(entropy.variance, s2, rtol=1e-12)

    def log_pdet(view):
        return 2 * float(view.entropy()) - 4 * (1 + np.log(2 * np.pi))

    # det over {Σx = 0} of a diagonal: Π a · Σ(1/a) / n
    assert_allclose(
        log_pdet(conditioned), -(np.log(omega).sum() + np.log(s2.sum() / 5)), rtol=1e-12
    )
    assert_allclose(log_pdet(imaged), np.log(s2).sum() + np.log(omega.sum() / 5), rtol=1e-12)
    got = [log_pdet(v) for v in (conditioned, imaged, entropy)]
    assert_allclose(got, [7.3594, 8.7027, 7.9343], atol=5e-5)
    values = np.linalg.eigvalsh(np.asarray(entropy.covariance_matrix))[1:]
    assert_allclose(got[2], np.log(values).sum(), rtol=1e-10)
    # squared μ of moving a record between the two smallest: ν₁ + ν₂; imaged minus (ω₁−ω₂)²/Σω
    from scipy.sparse import csr_array

    move = csr_array(np.array([[1.0, -1, 0, 0, 0]]))
    mu2 = [float(v.loss(move).mu[0] ** 2) for v in (conditioned, imaged, entropy)]
    assert_allclose(mu2[0], omega[0] + omega[1], rtol=1e-12)
    assert_allclose(
        mu2[1], omega[0] + omega[1] - (omega[0] - omega[1]) ** 2 / omega.sum(), rtol=1e-12
    )
    assert_allclose(mu2, [1.25, 0.86244, 1.276892], atol=5e-6)


def test_equal_scales_on_a_plain_total_are_one_family(make_of, scales):
    """conditioned = imaged = σ²P, maximum entropy σ²·n/d·P."""
    conditioned, imaged = (make_of(k, "groups").view(scale=2.0) for k in ("conditioned", "imaged"))
    entropy = make_of("max-entropy", "groups").view(scale=2.0)
    assert_allclose(conditioned.covariance_matrix, imaged.covariance_matrix, atol=1e-13)
    assert_allclose(entropy.covariance_matrix, 1.5 * imaged.covariance_matrix, atol=1e-13)
    assert_allclose(jnp.diag(entropy.covariance_matrix), 4.0, rtol=1e-13)
