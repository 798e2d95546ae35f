"""Two numbers a cell from one block: the laws of both, their independence, every kind of key."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from cdp_views._pairs import SPARE_BITS, exponential_and_bits, exponential_and_normal

SHAPE = (2, 60_001)  # odd, and more than one row
LAWS = {
    "exponential and normal": (exponential_and_normal, ("expon", "norm")),
}


def p_value(draw, law, scale=1.0):
    numbers = np.asarray(draw, np.float64).ravel() * scale
    return scipy.stats.kstest(numbers, getattr(scipy.stats, law).cdf).pvalue


def independence(one, two):
    """p-value of χ² over 16 × 16 cells of the ranks: sees any dependence, not only correlation."""
    one, two = (np.asarray(a, np.float64).ravel() for a in (one, two))
    place = [scipy.stats.rankdata(a, "ordinal") * 16 // (a.size + 1) for a in (one, two)]
    table = np.bincount((place[0] * 16 + place[1]).astype(int), minlength=256).reshape(16, 16)
    return scipy.stats.chi2_contingency(table).pvalue


@pytest.fixture(params=LAWS, ids=str)
def case(request):
    return LAWS[request.param]


def test_both_numbers_have_their_law_and_are_independent(case, precision, key):
    draw, laws = case
    pair = draw(key, SHAPE)
    for numbers, law in zip(pair, laws, strict=True):
        assert numbers.shape == SHAPE
        assert numbers.dtype == precision
        assert np.isfinite(np.asarray(numbers)).all()
        assert p_value(numbers, law) > 1e-6
        assert p_value(numbers, law, scale=1.03) < 1e-6  # the test would see 3 %
    assert independence(*pair) > 1e-6
    # a dependence without correlation is seen
    assert independence(pair[1], np.abs(np.asarray(pair[1]) - np.median(pair[1]))) < 1e-6
    # nor does a cell know its neighbour's numbers
    assert independence(np.asarray(pair[0]).ravel()[:-1], np.asarray(pair[1]).ravel()[1:]) > 1e-6


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg"])
def test_an_exponential_and_spare_bits(precision, implementation):
    """Every bit is fair, and knows neither the exponential nor another bit."""
    key = jax.random.key(5, impl=implementation)
    e, bits = exponential_and_bits(key, SHAPE)
    assert e.dtype == precision and p_value(e, "expon") > 1e-6
    assert independence(e, bits + np.random.default_rng(0).random(SHAPE)) > 1e-6
    signs = 2.0 * ((np.asarray(bits).ravel() >> np.arange(SPARE_BITS)[:, None]) & 1) - 1
    assert np.asarray(bits).max() < 2**SPARE_BITS
    alike = signs @ signs.T / signs.shape[1] - np.eye(SPARE_BITS)
    assert np.abs(alike).max() <= 5 / np.sqrt(signs.shape[1])
    assert np.abs(signs.mean(1)).max() <= 5 / np.sqrt(signs.shape[1])


def test_the_tails_are_there(key):
    """The largest of 10⁶ exponentials is near log 10⁶: no number is cut off early."""
    with jax.enable_x64(False):
        for draw in (exponential_and_normal, exponential_and_bits):
            numbers = draw(key, (1_000_000,))[0]
            assert 10 < float(numbers.max()) < np.log(2**24)
            assert 0 <= float(numbers.min()) < 1e-4


def test_a_raw_key_is_the_typed_one(case, precision):
    draw, _ = case
    typed, raw = draw(jax.random.key(3), (5,)), draw(jax.random.PRNGKey(3), (5,))
    np.testing.assert_array_equal(typed, raw)
    assert not np.array_equal(typed[0], draw(jax.random.key(4), (5,))[0])


@pytest.mark.parametrize("implementation", ["rbg", "unsafe_rbg"])
def test_other_generators(implementation):
    with jax.enable_x64(False):
        pair = exponential_and_normal(jax.random.key(5, impl=implementation), SHAPE)
    assert p_value(pair[0], "expon") > 1e-6
    assert p_value(pair[1], "norm") > 1e-6
    assert independence(*pair) > 1e-6


def test_traced_and_batched(case, precision):
    """jit changes no number; vmap over keys gives each key's own."""
    draw, _ = case
    keys = jax.random.split(jax.random.key(6), 3)
    plain = [draw(key, (7,)) for key in keys]
    limit = 8 * jnp.finfo(precision).eps  # compiled logarithms may round otherwise
    compiled = jax.jit(lambda key: draw(key, (7,)))(keys[0])
    batched = jax.jit(jax.vmap(lambda key: draw(key, (7,))))(keys)
    for place in (0, 1):
        np.testing.assert_allclose(compiled[place], plain[0][place], rtol=limit, atol=limit)
        rows = np.stack([pair[place] for pair in plain])
        np.testing.assert_allclose(batched[place], rows, rtol=limit, atol=limit)


def test_no_cells(precision, key):
    one, two = exponential_and_normal(key, (0,))
    assert one.shape == two.shape == (0,)
