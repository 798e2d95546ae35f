"""Estimated losses against quadrature, for views that are strangers and for bounded ones."""

from itertools import pairwise
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import sparse
from scipy.integrate import quad

import cdp_views as cdp
from cdp_views._checks import UnsupportedError
from cdp_views.loss import BoundedLoss

EPSILON = (0.0, 0.5, 1.0, 1.5)
TWO = cdp.totals(["WI", "WI"])
PAIR = cdp.relocations(TWO)


class OnALine:
    """Two cells q + (t, −t), t from a law on the line: all noise that keeps one total of two."""

    def __init__(self, law, loc=(30.0, 12.0), invariant=TWO):
        self.law, self.loc, self.invariant = law, jnp.asarray(loc), invariant

    def support(self, y):
        return self.law.support(y[..., 0] - self.loc[0])

    def sample(self, key, shape=()):
        t = self.law.sample(key, shape)
        return self.loc + jnp.stack([t, -t], axis=-1)

    def log_prob(self, y):
        return self.law.log_prob(y[..., 0] - self.loc[0])


class HalfDifference(dist.Distribution):
    """t = (u₁ − u₂)/2 of two Laplace(1): density (1 + 2|t|) e^{−2|t|}/2."""

    support = dist.constraints.real

    def __init__(self):
        super().__init__(())

    def sample(self, key, sample_shape=()):
        u = dist.Laplace(0.0, 1.0).sample(key, (*sample_shape, 2))
        return (u[..., 0] - u[..., 1]) / 2

    def log_prob(self, value):
        a = 2 * jnp.abs(value)
        return jnp.log1p(a) - a - jnp.log(2)


CONDITIONED = (dist.Laplace(0.0, 0.5), lambda t: np.exp(-2 * abs(t)))
IMAGED = (HalfDifference(), lambda t: (1 + 2 * abs(t)) * np.exp(-2 * abs(t)) / 2)


def profile(density, epsilon):
    """∫ (p(t) − e^ε p(t − 1))₊ dt."""

    def excess(t):
        return max(density(t) - np.exp(epsilon) * density(t - 1), 0)

    ends = np.linspace(-25, 25, 401)
    return sum(quad(excess, a, b)[0] for a, b in pairwise(ends))


@pytest.mark.parametrize(
    ("law", "figures"),
    [(CONDITIONED, (0.632, 0.528, 0.394, 0.221)), (IMAGED, (0.448, 0.299, 0.134, 0.0123))],
    ids=["conditioned", "imaged"],
)
def test_a_stranger_on_two_cells(law, figures, key, precision):
    """Laplace noise with λ = 1 on two cells (mathematics.md §4), seen as nothing but draws."""
    loss = cdp.privacy_loss(OnALine(law[0]), PAIR, key=key, draws=20_000)
    want = [profile(law[1], epsilon) for epsilon in EPSILON]
    np.testing.assert_allclose(want, figures, rtol=5e-3)
    other = [profile(CONDITIONED[1] if law is IMAGED else IMAGED[1], e) for e in EPSILON]
    got = np.array([loss.delta(e) for e in EPSILON])
    error = np.array([loss.delta_stderr(e) for e in EPSILON])
    assert (abs(got - want) < 5 * error).all()
    assert (abs(got - other) > 5 * error).all()  # negative control
    assert abs(loss.guess_rate - (1 + want[0]) / 2) < 5 * loss.stderr
    # Above the bound of randomised response at the pure ε of 2 there is nothing.
    assert (want <= BoundedLoss([2.0]).delta(np.array(EPSILON)[:, None])[:, 0]).all()
    assert (loss.kind, loss.pure_epsilon, loss.pure_kind) == ("estimate", np.inf, "bound")
    assert loss.worst.cells == (0, 1) and loss.worst.group == "WI"


def test_epsilon_of_a_stranger(key):
    loss = cdp.privacy_loss(OnALine(CONDITIONED[0]), PAIR, key=key)
    delta = profile(CONDITIONED[1], 1.0)
    assert abs(loss.epsilon(delta) - 1.0) < 5 * loss.epsilon_stderr(delta)
    assert loss.epsilon(0.0) == np.inf


def test_a_stranger_that_is_not_symmetric(key):
    """t ~ Exponential(1), NumPyro's, whose density goes on below 0.

    Moved up by 1 the law has no mass on t < 1: L = ∞ with chance 1 − e^{−1}. Moved down, L = −1
    throughout: only looking both ways finds δ.
    """
    loss = cdp.privacy_loss(OnALine(dist.Exponential(1.0)), cdp.differences([[-1, 1]]), key=key)
    want = 1 - np.exp(-1)
    assert abs(loss.delta(3.0) - want) < 5 * loss.delta_stderr(3.0)


def test_a_distribution_without_an_invariant(key):
    normal = dist.Normal(jnp.zeros(3), 2.0).to_event(1)
    loss = cdp.privacy_loss(normal, cdp.differences([[1, 0, 0], [0, 1, 1]]), key=key)
    from scipy.stats import norm

    assert loss.worst.cells == (1, 2)
    assert abs(loss.guess_rate - norm.cdf(np.sqrt(2) / 4)) < 5 * loss.stderr


def bounded(law, sup, **more):
    view = OnALine(law)
    view.exposure = np.ones(2)
    view.loss = lambda differences, query=None: BoundedLoss(sup, **more)
    return view


def test_a_bounded_view_keeps_what_is_exact(key):
    view = bounded(CONDITIONED[0], [2.0])
    proved, seen = cdp.privacy_loss(view, PAIR), cdp.privacy_loss(view, PAIR, key=key)
    for loss in (proved, seen):
        assert (loss.pure_epsilon, loss.pure_kind, loss.epsilon(0.0)) == (2.0, "exact", 2.0)
        assert loss.delta(2.0) == 0
    assert (proved.kind, seen.kind) == ("bound", "estimate")
    assert proved.stderr is None and proved.delta_stderr(1.0) is None
    for epsilon in EPSILON:
        want = profile(CONDITIONED[1], epsilon)
        assert want <= proved.delta(epsilon)
        assert abs(seen.delta(epsilon) - want) < 5 * seen.delta_stderr(epsilon)
    assert seen.guess_rate < proved.guess_rate
    assert str(proved).splitlines()[2:4] == [
        "  pure epsilon 2 (exact)",
        f"  guess rate at most {proved.guess_rate:.6g}",
    ]
    text = str(seen).splitlines()
    assert text[2] == "  estimated from 4,000 draws, for 1 of 1 differences that look worst"
    assert text[3] == "  pure epsilon 2 (exact)"
    assert text[4].endswith(f"± {seen.stderr:.2g} (standard error)")


def test_a_view_may_know_a_shorter_way(key):
    asked = []

    def loss_draws(key, differences, draws):
        asked.append((differences.toarray().tolist(), draws))
        return np.tile([1.0, 1.0, 1.0, -1.0], (differences.shape[0], draws // 4))

    view = SimpleNamespace(invariant=TWO, loss_draws=loss_draws)
    loss = cdp.privacy_loss(view, PAIR, key=key, draws=400)
    assert asked == [([[1, -1], [-1, 1]], 400)]
    assert loss.delta(0.0) == pytest.approx(0.75 * (1 - np.exp(-1)))


def test_a_bound_that_is_wrong_is_found_out(key):
    with pytest.raises(ValueError, match=r"^`draws` must not exceed `sup`"):
        cdp.privacy_loss(bounded(CONDITIONED[0], [1.5]), PAIR, key=key)


def test_a_supremum_that_is_itself_a_bound(key):
    view = bounded(CONDITIONED[0], [3.0], sup_kind="bound")
    assert cdp.privacy_loss(view, PAIR, key=key).pure_kind == "bound"


class Independent:
    """Laplace noise of scale 1 on n cells that keep no total but say that they do."""

    def __init__(self, invariant):
        self.invariant, self.exposure = invariant, np.ones(invariant.n)
        self.law = dist.Laplace(jnp.zeros(invariant.n), 1.0).to_event(1)
        self.sample, self.log_prob = self.law.sample, self.law.log_prob

    def loss(self, differences, query=None):
        if query is not None:
            return BoundedLoss([1.0])
        return BoundedLoss(abs(differences).sum(axis=1))


def test_many_groups_are_thinned_out(key):
    """150 groups of 2, 3 or 4 cells: one of each size is looked at, the largest sup always."""
    labels = np.repeat(np.arange(150), np.tile([2, 3, 4], 50))
    inv = cdp.totals(labels)
    loss = cdp.privacy_loss(Independent(inv), cdp.relocations(inv), key=key, draws=2000)
    assert loss.scope.endswith("for 3 of 150 differences that look worst")
    rows = np.eye(20)[:10] * np.arange(1, 11)[:, None] / 10
    inv = SimpleNamespace(n=20, matrix=sparse.csr_array((1, 20)), names=None)
    loss = cdp.privacy_loss(Independent(inv), cdp.differences(rows), key=key, draws=2000)
    assert loss.scope.endswith("for 4 of 10 differences that look worst")
    assert loss.pure_epsilon == 1.0 and loss.worst.row == 9


def test_a_query_is_never_estimated(key):
    inv = cdp.totals(["a", "a", "a"])
    nb, query = cdp.relocations(inv), np.ones((1, 3))
    assert cdp.privacy_loss(Independent(inv), nb, query=query, key=key).kind == "bound"
    with pytest.raises(UnsupportedError, match=r"^`view`[^\n]+`query`[^\n]+$"):
        cdp.privacy_loss(OnALine(CONDITIONED[0]), PAIR, query=np.ones((1, 2)), key=key)


def test_a_view_that_proves_nothing_is_estimated(key):
    view = OnALine(IMAGED[0])

    def loss(differences, query=None):
        raise UnsupportedError("no guarantee is proved. Pass key=.")

    view.loss = loss
    with pytest.raises(UnsupportedError, match="no guarantee is proved"):
        cdp.privacy_loss(view, PAIR)
    seen = cdp.privacy_loss(view, PAIR, key=key)
    assert abs(seen.delta(0.0) - profile(IMAGED[1], 0.0)) < 5 * seen.delta_stderr(0.0)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"log_prob": lambda y: jnp.full(y.shape[0], -jnp.inf)}, "finite log-density"),
        ({"log_prob": lambda y: jnp.zeros(y.shape)}, "one log-density a draw"),
        ({"sample": lambda key, shape: jnp.zeros((*shape, 3))}, "draw 2 cells"),
    ],
)
def test_a_stranger_that_makes_no_sense(change, match, key):
    view = OnALine(CONDITIONED[0])
    for name, value in change.items():
        setattr(view, name, value)
    with pytest.raises(ValueError, match=rf"^`view` must [^\n]*{match}[^\n]*$"):
        cdp.privacy_loss(view, PAIR, key=key)


@pytest.mark.parametrize("draws", [1, 10**12])
def test_bad_draws(draws, key):
    with pytest.raises(ValueError, match=r"^`draws` [^\n]+$"):
        cdp.privacy_loss(OnALine(CONDITIONED[0]), PAIR, key=key, draws=draws)


def test_the_normal_views_stay_exact(key):
    with jax.enable_x64(True):
        view = cdp.Conditioned(dist.Normal(jnp.zeros(2), 1.0), TWO)
    assert cdp.privacy_loss(view, PAIR, key=key).kind == "exact"


@pytest.mark.slow
def test_a_maximum_entropy_release_by_its_estimated_density(key):
    """In a group of two it is Laplace noise on a line: one cell that moves by 1, 1 − e^{−½}."""
    view = cdp.MaxEntropy(dist.Laplace(jnp.zeros(2), 1.0), TWO)
    with pytest.raises(UnsupportedError, match="No guarantee is proved"):
        cdp.privacy_loss(view, PAIR)
    loss = cdp.privacy_loss(view, PAIR, key=key, draws=400)
    want = 1 - np.exp(-0.5)
    assert loss.kind == "estimate" and loss.pure_kind == "bound"
    assert abs(loss.delta(0.0) - want) < 5 * loss.delta_stderr(0.0)
    assert abs(loss.delta(0.0) - 1.4 * want) > 5 * loss.delta_stderr(0.0)  # negative control
