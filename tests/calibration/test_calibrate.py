from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from cdp_views._checks import UnsupportedError
from cdp_views.calibration import calibrate
from cdp_views.loss import BoundedLoss, GaussianLoss, Loss, analytic_gaussian_mu, tail_bound_mu
from cdp_views.neighbours import relocations
from cdp_views.privacy import privacy_loss

INV = SimpleNamespace(
    n=3, blocks=np.zeros(3, int), matrix=sparse.csr_array(np.ones((1, 3))), names=None
)
NEAR = relocations(INV)


def view_with(mu):
    """A view whose worst difference has this μ."""
    return SimpleNamespace(
        invariant=INV, exposure=np.ones(3), loss=lambda V, query=None: GaussianLoss([mu])
    )


class Counted:
    """A map from scale to view that remembers how often it was asked."""

    def __init__(self, mu_of_scale):
        self.mu_of_scale, self.calls = mu_of_scale, 0

    def __call__(self, scale):
        self.calls += 1
        return view_with(float(self.mu_of_scale(scale)))


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 50.0, 1e4])
@pytest.mark.parametrize("delta", [1e-300, 1e-10, 0.1, 0.9])
@pytest.mark.parametrize("bound", ["analytic", "tail"])
def test_normal_noise(epsilon, delta, bound):
    family = Counted(lambda s: 1.118 / s)
    scale = calibrate(family, NEAR, epsilon=epsilon, delta=delta, bound=bound)
    assert isinstance(scale, float)
    assert family.calls <= 4
    assert privacy_loss(family(scale), NEAR).delta(epsilon) <= delta
    goal = {"analytic": analytic_gaussian_mu, "tail": tail_bound_mu}[bound](epsilon, delta)
    assert scale >= 1.118 / goal * (1 - 1e-15)
    assert scale == pytest.approx(1.118 / goal, rel=2e-13)


@settings(max_examples=30)
@given(
    st.floats(-4, 4),
    st.floats(-250, -0.01),
    st.sampled_from([lambda s: 7 / s, lambda s: 1e-9 / s, lambda s: 3e8 / s]),
)
def test_no_larger_and_no_smaller(log_epsilon, log_delta, mu):
    epsilon, delta = 10**log_epsilon, 10**log_delta
    scale = calibrate(Counted(mu), NEAR, epsilon=epsilon, delta=delta)
    assert privacy_loss(view_with(mu(scale)), NEAR).delta(epsilon) <= delta
    assert mu(scale * (1 - 3e-13)) > analytic_gaussian_mu(epsilon, delta)


@pytest.mark.parametrize(
    "mu",
    [
        lambda s: 1 / (s**3 + 0.1),
        lambda s: 1 / np.log1p(s),
        lambda s: 1 / (s + 0.01),
        lambda s: np.exp(-s) + 0.01,
        lambda s: max(3 / s, 2 / np.sqrt(s)),
        lambda s: 1 / s if s < 5 else 1 / (s + 3),
    ],
)
def test_noise_that_is_not_proportional(mu):
    family = Counted(mu)
    scale = calibrate(family, NEAR, epsilon=1.0, delta=1e-6)
    assert family.calls < 80
    assert privacy_loss(family(scale), NEAR).delta(1.0) <= 1e-6
    assert privacy_loss(family(scale * (1 - 1e-12)), NEAR).delta(1.0) > 1e-6


@pytest.mark.parametrize("factor", [1.0, 1.7, 0.013, 1e5])
def test_a_view_that_rounds_its_scale(factor):
    family = Counted(lambda s: factor / float(np.float32(s)))
    scale = calibrate(family, NEAR, epsilon=1.0, delta=1e-6)
    assert family.calls <= 8
    assert privacy_loss(family(scale), NEAR).delta(1.0) <= 1e-6
    assert privacy_loss(family(scale * (1 - 1e-6)), NEAR).delta(1.0) > 1e-6


class ExponentialLoss(Loss):
    """δ(ε) = e^{−1 − ε s}: a loss that is not normal."""

    kind = "exact"

    def __init__(self, scale):
        self.scale = np.atleast_1d(scale)

    @property
    def sup(self):
        return np.full(self.scale.shape, np.inf)

    def delta(self, epsilon):
        return np.exp(-1 - epsilon * self.scale)

    def epsilon(self, delta):
        return (-1 - np.log(delta)) / self.scale

    def take(self, indices):
        return ExponentialLoss(self.scale[indices])


def exponential_view(scale):
    return SimpleNamespace(
        invariant=INV, exposure=np.ones(3), loss=lambda V, query=None: ExponentialLoss(scale)
    )


def test_a_loss_that_is_not_normal():
    scale = calibrate(exponential_view, NEAR, epsilon=2.0, delta=1e-6)
    assert scale == pytest.approx((-1 - np.log(1e-6)) / 2, rel=1e-11)
    assert ExponentialLoss(scale).delta(2.0)[0] <= 1e-6
    with pytest.raises(UnsupportedError, match="normal privacy loss only"):
        calibrate(exponential_view, NEAR, epsilon=2.0, delta=1e-6, bound="tail")


@pytest.mark.parametrize(
    ("mu", "match"),
    [
        (lambda s: 1.0, "got no change"),
        (lambda s: 1e-9, "got no change|every scale tried keeps"),
        (lambda s: s, "got less"),
        (lambda s: 1e-4 * s, "got less"),
        (lambda s: np.inf, "no scale tried keeps"),
        (lambda s: 0.0, "every scale tried keeps"),
    ],
)
def test_a_family_that_scale_does_not_protect(mu, match):
    family = Counted(mu)
    words = rf"^(The budget|`view_of_scale` must) [^\n]*({match})[^\n]*$"
    with pytest.raises(ValueError, match=words):
        calibrate(family, NEAR, epsilon=1.0, delta=1e-6)
    assert family.calls < 200


@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, np.inf, [1.0]])
def test_bad_epsilon(epsilon):
    with pytest.raises(ValueError, match=r"^`epsilon` must be positive; got [^\n]+$"):
        calibrate(Counted(lambda s: 1 / s), NEAR, epsilon=epsilon, delta=0.1)


@pytest.mark.parametrize("delta", [1.0, -0.1, 2.0, np.nan])
def test_bad_delta(delta):
    with pytest.raises(ValueError, match=r"^`delta` must be at least 0 and below 1; got [^\n]+$"):
        calibrate(Counted(lambda s: 1 / s), NEAR, epsilon=1.0, delta=delta)


def bounded_family(exposure, calls=None, *, held=float):
    """Pure ε = exposure/scale, the scale held as `held`."""

    def view(scale):
        if calls is not None:
            calls.append(scale)
        law = BoundedLoss([exposure / float(held(scale))])
        return SimpleNamespace(invariant=INV, exposure=np.ones(3), loss=lambda V, query=None: law)

    return view


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1 / 3, 1.0, 50.0, 1e6])
@pytest.mark.parametrize("exposure", [1e-12, 2.0, 1 / 7, 3e15])
def test_pure_epsilon(epsilon, exposure):
    calls = []
    family = bounded_family(exposure, calls)
    scale = calibrate(family, NEAR, epsilon=epsilon)
    assert len(calls) <= 3
    assert privacy_loss(family(scale), NEAR).pure_epsilon <= epsilon
    assert scale == pytest.approx(exposure / epsilon, rel=2e-13)


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 50.0, 1e4])
@pytest.mark.parametrize("delta", [1e-300, 1e-10, 0.5])
def test_a_bounded_loss_may_spend_its_delta(epsilon, delta):
    """δ of randomised response, (e^s − e^ε)/(e^s + 1) = δ: s = ε + log1p(δe^{−ε}) − log1p(−δ)."""
    family = bounded_family(2.0)
    scale = calibrate(family, NEAR, epsilon=epsilon, delta=delta)
    assert privacy_loss(family(scale), NEAR).delta(epsilon) <= delta
    sup = epsilon + np.log1p(delta * np.exp(-epsilon)) - np.log1p(-delta)
    assert scale == pytest.approx(2.0 / sup, rel=1e-6)
    assert scale >= 2.0 / sup * (1 - 1e-14)


@settings(max_examples=40)
@given(st.floats(-6, 6), st.floats(-9, 9))
def test_pure_epsilon_is_never_exceeded(log_epsilon, log_exposure):
    epsilon, family = 10**log_epsilon, bounded_family(10**log_exposure)
    scale = calibrate(family, NEAR, epsilon=epsilon)
    assert privacy_loss(family(scale), NEAR).pure_epsilon <= epsilon
    assert privacy_loss(family(scale * (1 - 3e-13)), NEAR).pure_epsilon > epsilon


@pytest.mark.parametrize("exposure", [1.0, 1.7, 0.013, 1e5])
def test_pure_epsilon_of_a_view_that_rounds_its_scale(exposure):
    calls = []
    family = bounded_family(exposure, calls, held=np.float32)
    scale = calibrate(family, NEAR, epsilon=1.0)
    assert len(calls) <= 8
    assert privacy_loss(family(scale), NEAR).pure_epsilon <= 1.0
    assert privacy_loss(family(scale * (1 - 1e-6)), NEAR).pure_epsilon > 1.0


def test_pure_epsilon_is_refused_to_normal_noise():
    with pytest.raises(ValueError, match=r"^`delta` must be above 0 [^\n]*use Laplace noise\.$"):
        calibrate(Counted(lambda s: 1 / s), NEAR, epsilon=1.0)


def test_the_tail_bound_is_of_normal_noise():
    with pytest.raises(UnsupportedError, match=r'^`bound` "tail" [^\n]+$'):
        calibrate(bounded_family(1.0), NEAR, epsilon=1.0, bound="tail")


def test_bad_bound():
    with pytest.raises(ValueError, match=r"^`bound` must be one of"):
        calibrate(Counted(lambda s: 1 / s), NEAR, epsilon=1.0, delta=0.1, bound="loose")
