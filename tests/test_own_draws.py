"""Every draw is on its subspace to rounding, however adversarial weights, scales and groups are."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import cdp_views as cdp

SIZES = (2, 3, 5, 10, 100, 256, 1000)
GAPS = {jnp.float32: (0.5, 0.1, 0.01), jnp.float64: (0.5, 1e-3, 1e-6, 1e-9)}
LIMIT = 8  # the yardstick of the support, in eps of |A||x|


def weights(kind, n, random):
    if kind == "wide":
        return 10 ** random.uniform(-5, 5, n) * random.choice([-1, 1], n)
    return np.exp(random.normal(size=n)) if kind == "mild" else np.ones(n)


def scales(kind, n, random):
    if kind == "wide":
        return 10 ** random.uniform(-6, 6, n)
    # nearly equal numbers, whose sums drift one way
    return (
        np.exp(0.3 * random.normal(size=n)) if kind == "mild" else 0.1 + 1e-4 * (np.arange(n) % 2)
    )


def adversarial_table(dtype, gaps):
    """Labels, weights and scales (n,): a group of each size, weights, scales and dominance."""
    random, groups = np.random.default_rng(23), []
    large = [(100_000, "plain", "near", gaps[-1]), (100_000, "wide", "wide", gaps[-1])]
    kinds = [(b, s) for b in ("plain", "mild", "wide") for s in ("near", "mild", "wide")]
    cases = [(n, b, s, gap) for n in SIZES for b, s in kinds for gap in gaps]
    for n, weight, scale, gap in cases + large:
        b = weights(weight, n, random)
        c = np.abs(b) * scales(scale, n, random)
        if gap is not None:  # the first cell is this close to half of its group
            c[0] = (1 - gap) * c[1:].sum()
            if n == 2 or np.max(c[1:]) > 0.49 * c.sum():
                continue  # another cell is
        groups.append((b, c / np.abs(b)))
    labels = np.repeat(np.arange(len(groups)), [len(b) for b, _ in groups])
    mixed = random.permutation(len(labels))
    b, scale = (np.concatenate(column)[mixed] for column in zip(*groups, strict=True))
    return labels[mixed], b.astype(dtype).astype(float), scale.astype(dtype)


def exact_miss(inv, x, dtype):
    """|A x| over |A||x| of the worst total of every row of x, in eps; in more than float64."""
    labels, b = np.asarray(inv.segments.labels), np.asarray(inv.weights, np.longdouble)
    terms = b * np.asarray(x, np.longdouble)
    net, gross = np.zeros((2, len(terms), inv.rank), np.longdouble)
    np.add.at(net, (slice(None), labels), terms)
    np.add.at(gross, (slice(None), labels), np.abs(terms))
    return float((np.abs(net) / gross).max() / jnp.finfo(dtype).eps)


@pytest.mark.parametrize("view", [cdp.Conditioned, cdp.MaxEntropy])
def test_own_draws_are_in_the_support(view, precision):
    labels, b, scale = adversarial_table(
        precision, GAPS[precision] if view is cdp.MaxEntropy else (None,)
    )
    inv = cdp.totals(labels, b)
    law = view(dist.Normal(jnp.zeros(len(labels), precision), scale), inv)
    draws = jax.jit(lambda law, key: law.sample_noise(key, (3,)))(law, jax.random.key(1))
    assert draws.dtype == precision
    assert np.isfinite(np.asarray(draws)).all()
    assert bool(jnp.all(jax.jit(lambda law, x: law.support(x))(law, draws)))
    assert exact_miss(inv, draws, precision) < LIMIT
    # the measure sees a pivot that is a few roundings off
    form, eps = law._push.law, jnp.finfo(precision).eps
    wrong = jnp.where(form.pivot, draws * (1 + 64 * eps), draws)
    assert exact_miss(inv, wrong, precision) > LIMIT
    if view is cdp.MaxEntropy and precision == jnp.float64:
        assert exact_miss(inv, by_kappa(form, (3, inv.n)), precision) > LIMIT


@partial(jax.jit, static_argnums=1)
def by_kappa(form, shape):
    """Draws whose pivot is −(Σ F free)/√κ, which in exact numbers is the same."""
    u, seg = jax.random.normal(jax.random.key(1), shape), form.invariant.segments
    free = jnp.where(form.pivot, 0, u * jax.lax.rsqrt(form._nu_rest))
    own = -seg.sum(form._weighed(free)) / jnp.sqrt(form.kappa)
    return jnp.where(form.pivot, seg.spread(own), form.colour(u))


def test_own_draws_of_a_weighted_image(precision):
    """Imaging in a weighted metric draws with the totals exact too."""
    labels, b, scale = adversarial_table(precision, (None,))
    inv = cdp.totals(labels, b)
    base = dist.Normal(jnp.zeros(len(labels), precision), scale)
    weight = np.random.default_rng(2).uniform(0.5, 2, len(labels)).astype(precision)
    law = cdp.Imaged(base, inv, weights=weight)
    draws = jax.jit(lambda law, key: law.sample_noise(key, (3,)))(law, jax.random.key(1))
    assert exact_miss(inv, draws, precision) < LIMIT
