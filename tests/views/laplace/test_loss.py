"""The privacy loss: its supremum by linear programming, its draws by differences of densities."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, stats
from scipy.sparse import csr_array

import cdp_views as cdp
from cdp_views._checks import UnsupportedError
from cdp_views.loss import BoundedLoss

pytestmark = pytest.mark.usefixtures("float64")
DRAWS = 4000
LABELS = np.array([0, 2, 1, 0, 2, 1, -1, 0, 2, 1, -1, 0])  # −1: in no total
INV = cdp.totals([None if g < 0 else g for g in LABELS.tolist()], missing="free")
WEIGHTED = cdp.totals(
    [None if g < 0 else g for g in LABELS.tolist()],
    np.array([1.0, -2, 0.5, 1, 3, -1, 1, 1.5, 1, 1, 1, -1]),
    missing="free",
)
SCALE = np.exp(np.random.default_rng(5).normal(size=12))
COSTS = np.exp(np.random.default_rng(6).normal(size=12))


def plain(kind, n, scale):
    make = cdp.Conditioned if kind == "conditioned" else cdp.Imaged
    return make(dist.Laplace(np.zeros(n), scale), cdp.totals([0] * n))


def rows(inv, m, density=1.0):
    """Random differences that keep the totals, some of few cells."""
    rng = np.random.default_rng(8)
    v = np.asarray(inv.project(rng.normal(size=(m, inv.n))))
    A = inv.matrix.toarray()
    few = np.zeros((3, inv.n))
    few[0, [0, 3]] = [1, -A[0, 0] / A[0, 3]]
    few[1, 6] = 2.0
    few[2, [1, 4, 10]] = [0.5, -0.5 * A[1, 1] / A[1, 4], 0.3]
    few[2] += 0.5 * few[0]
    return np.vstack([v, few])


def smallest(v, inv, scale, costs):
    """min_w Σ|v_i + (u w)_i|/λ_i over one w per total, by linear programming."""
    A = inv.matrix.toarray()
    u = (A / costs).T
    k, n = A.shape
    eye = np.eye(n)
    done = optimize.linprog(
        np.append(np.zeros(k), 1 / scale),
        A_ub=np.block([[u, -eye], [-u, -eye]]),
        b_ub=np.concatenate([-v, v]),
        bounds=[(None, None)] * k + [(0, None)] * n,
    )
    return done.fun


@pytest.mark.parametrize("costs", [None, COSTS], ids=["l2", "weighted"])
@pytest.mark.parametrize("inv", [INV, WEIGHTED], ids=["plain", "weighted"])
def test_imaged_supremum(inv, costs):
    view = cdp.Imaged(dist.Laplace(np.zeros(12), SCALE), inv, weights=costs)
    v = rows(inv, 6)
    law = view.loss(csr_array(v))
    want = [smallest(row, inv, SCALE, np.ones(12) if costs is None else costs) for row in v]
    assert_allclose(law.sup, want, rtol=1e-8)
    assert law.sup.dtype == np.float64
    conditioned = cdp.Conditioned(dist.Laplace(np.zeros(12), SCALE), inv).loss(csr_array(v))
    assert_allclose(conditioned.sup, np.sum(np.abs(v) / SCALE, -1), rtol=1e-13)
    assert np.all(law.sup <= conditioned.sup * (1 + 1e-12))
    both = np.array([law.sup, view.loss(csr_array(v[::-1])).sup[::-1]])
    assert_allclose(both[0], both[1], rtol=1e-12)


def test_attained_pure_epsilon():
    """v = (1, 1, 1, −3), λ = 1: conditioned ‖v‖₁ = 6; imaged moves to median 1: 4."""
    v = csr_array(np.array([[1.0, 1, 1, -3]]))
    assert_allclose(plain("conditioned", 4, 1.0).loss(v).sup, [6.0])
    assert_allclose(plain("imaged", 4, 1.0).loss(v).sup, [4.0])
    far = 50 * np.array([[1.0, 1, 1, -3]])
    for kind, want in (("conditioned", 6.0), ("imaged", 4.0)):
        view = plain(kind, 4, 1.0)
        loss = view.log_prob(far) - view.log_prob(far - v.toarray())
        assert loss[0] >= -want - 1e-9
        wide = np.random.default_rng(0).laplace(size=(500, 4), scale=9.0)
        x = np.vstack([far, -far, wide - wide.mean(-1, keepdims=True)])
        loss = np.asarray(view.log_prob(x) - view.log_prob(x + v.toarray()))
        assert np.max(np.abs(loss)) <= want + 1e-9
    # conditioned attains it in the tail of v itself
    view = plain("conditioned", 4, 1.0)
    assert_allclose(view.log_prob(far) - view.log_prob(far + v.toarray()), [6.0], rtol=1e-9)


def test_imaged_attains_its_bound():
    """At noise far along −v + u: 4, not less."""
    view, v = plain("imaged", 4, 1.0), np.array([[1.0, 1, 1, -3]])
    loss = view.log_prob(1e4 * v) - view.log_prob((1e4 + 1) * v)
    assert_allclose(loss, [4.0], rtol=1e-3)


def test_two_cells_of_scales_one_and_three():
    """min_w |1 + w| + |w − 1|/3 = 2/3 at w = −1; conditioned 1 + 1/3."""
    v = csr_array(np.array([[1.0, -1.0]]))
    scale = np.array([1.0, 3.0])
    assert_allclose(plain("imaged", 2, scale).loss(v).sup, [2 / 3], rtol=1e-13)
    assert_allclose(plain("conditioned", 2, scale).loss(v).sup, [4 / 3], rtol=1e-13)


@pytest.mark.parametrize(
    ("kind", "inv"),
    [
        pytest.param("conditioned", INV, id="conditioned plain"),
        pytest.param("imaged", WEIGHTED, id="imaged weighted"),
        pytest.param("conditioned", WEIGHTED, marks=pytest.mark.slow, id="conditioned weighted"),
        pytest.param("imaged", INV, marks=pytest.mark.slow, id="imaged plain"),
    ],
)
def test_draws_of_the_loss(kind, inv, key):
    """Against log_prob(y) − log_prob(y + v) of draws of the whole table."""
    make = cdp.Conditioned if kind == "conditioned" else cdp.Imaged
    view = make(dist.Laplace(np.zeros(12), SCALE), inv)
    v = rows(inv, 1)
    v *= 3 / np.sum(np.abs(v) / SCALE, -1, keepdims=True)  # so that e^{−L} has a small variance
    got = view.loss_draws(key, csr_array(v), DRAWS)
    assert got.shape == (4, DRAWS) and got.dtype == np.float64
    y = view.sample_noise(jax.random.key(1), (DRAWS,))
    here = np.asarray(view._log_density(y))
    law = view.loss(csr_array(v))
    sup = law.sup
    assert law.kind == "bound"
    for i in range(4):
        want = here - np.asarray(view._log_density(y + v[i]))
        assert stats.ks_2samp(got[i], want).pvalue > 1e-6
        assert np.all(np.abs(got[i]) <= sup[i] + 1e-9)
        # the other world's probability: E e^{−L} = 1
        ratio = np.exp(-got[i])
        assert abs(ratio.mean() - 1) <= 5 * ratio.std() / np.sqrt(DRAWS)
    for epsilon in (0.0, 0.3 * sup.min(), 0.8 * sup.min()):
        excess = np.maximum(-np.expm1(np.minimum(epsilon - got, 0)), 0)
        score = (law.delta(epsilon) - excess.mean(-1)) / (excess.std(-1) / np.sqrt(DRAWS))
        assert np.all(score > -5)  # proved for all
        if kind == "conditioned":  # one part, or three: exact, or from barely above
            assert np.all(score[1:] < 5) and view.loss(csr_array(v[1:3])).kind == "exact"
    assert stats.ks_2samp(got[0], 1.6 * want).pvalue < 1e-6  # another difference's loss


def test_draws_are_float64_whatever_the_flag(key):
    v = csr_array(rows(INV, 1))
    out = []
    for flag in (False, True):
        with jax.enable_x64(flag):
            view = cdp.Conditioned(dist.Laplace(np.zeros(12), SCALE), INV)
            out.append((view.loss_draws(key, v, 100), view.loss(v).sup, view.exposure))
    for a, b in zip(*out, strict=True):
        assert a.dtype == b.dtype == np.float64
        assert_allclose(a, b, rtol=1e-12)


def test_conditioned_profile_of_one_relocation():
    """Exact and as documented (mathematics.md §4, numerics.md §7); weights enter as |b|λ."""
    one = csr_array(np.eye(10)[[0]] - np.eye(10)[[7]])
    view = plain("conditioned", 10, 1.0)
    law = view.loss(one)
    assert law.kind == law.sup_kind == "exact" and law.sup.tolist() == [2.0]
    want = [0.471, 0.3695, 0.2555, 0.131]
    assert_allclose(law.delta(np.array([[0.0], [0.5], [1], [1.5]]))[:, 0], want, atol=6e-4)
    b = np.array([1.0, -2, 1, 1, 1, 1, 1, 2, 1, 1])
    weighted = cdp.Conditioned(dist.Laplace(np.zeros(10), 1 / np.abs(b)), cdp.totals([0] * 10, b))
    moved = csr_array(np.eye(10)[[0]] + 0.5 * np.eye(10)[[1]])  # 1·1 − 2·½ = 0
    assert_allclose(weighted.loss(moved).delta(0.5), law.delta(0.5), rtol=1e-9)


def test_imaged_profile_of_two_cells():
    """mathematics.md §4; unequal scales against the plain integral over the line x₁ + x₂ = 0."""
    one = csr_array(np.array([[1.0, -1]]))
    law = plain("imaged", 2, 1.0).loss(one)
    assert law.kind == "exact"
    grid = np.array([[0.0], [0.5], [1], [1.5]])
    assert_allclose(law.delta(grid)[:, 0], [0.4482, 0.2990, 0.1341, 0.0123], atol=6e-5)
    law = plain("imaged", 2, np.array([1.0, 3.0])).loss(3 * one)
    z = np.linspace(-120, 120, 480_001)

    def density(z):  # of Laplace(1) + Laplace(3)
        return (3 * np.exp(-np.abs(z) / 3) - np.exp(-np.abs(z))) / 16

    for epsilon in (0.0, 0.7, 1.7):
        brute = np.maximum(density(z + 6) - np.exp(epsilon) * density(z), 0).sum() * 5e-4
        assert_allclose(law.delta(epsilon), brute, rtol=1e-4)


def along_the_fibre(x, scale):
    """log ∫ e^{−Σ|x_i + s|/λ_i} ds, straight pieces between the places −x_i: (draws,)."""
    order = np.argsort(x, axis=-1)
    z, g = np.take_along_axis(x, order, -1), np.empty_like(x)
    for j in range(x.shape[1]):
        g[:, j] = -np.sum(np.abs(z - z[:, [j]]) / scale[order], axis=-1)
    total = (np.exp(g[:, 0]) + np.exp(g[:, -1])) / np.sum(1 / scale)
    fall = np.abs(np.diff(g)) + 1e-9
    pieces = np.diff(z) * np.exp(np.maximum(g[:, 1:], g[:, :-1])) * -np.expm1(-fall) / fall
    return np.log(total + pieces.sum(axis=-1))


def test_imaged_profile_of_three_cells_and_its_bound_for_more():
    """n = 3: image of x is (x₁ − x₃, x₂ − x₃), by midpoints in the plane; n = 4: by draws."""
    x = (np.arange(192) + 0.5) / 6 - 16
    one, two = np.meshgrid(x, x, sparse=True)

    def density(v):
        at = [one + v[0], two + v[1], v[2]]
        return sum(np.exp(-sum(np.abs(a + s) for a in at)) for s in x) / 6 / 8

    view = plain("imaged", 3, 1.0)
    for v in ([1.0, -1, 0], [1.5, 0.5, -2]):
        law = view.loss(csr_array(np.array([v])))
        assert law.kind == law.sup_kind == "exact"
        p, q = density([0, 0, 0]), density(v)
        for epsilon in (0.0, 0.5, 0.9 * law.sup[0]):
            brute = np.maximum(p - np.exp(epsilon) * q, 0).sum() / 36
            assert_allclose(law.delta(epsilon)[0], brute, atol=5e-3)
            assert law.delta(epsilon)[0] <= BoundedLoss(law.sup).delta(epsilon)[0]
    # the third and fourth cell count as one of both their rates: little is lost by it
    scale, v = np.array([4.0, 3, 2, 2]), np.array([[0.0, 0, 1, -1], [1.0, 1, 1, -3]])
    law = plain("imaged", 4, scale).loss(csr_array(v))
    y = np.random.default_rng(1).laplace(scale=scale, size=(100_000, 4))
    draws = np.abs(along_the_fibre(y, scale) - along_the_fibre(y + v[0], scale))
    assert law.kind == "bound" and law.sup[0] == 1.0
    base = plain("imaged", 200, 2.0).loss(csr_array(np.eye(200)[[0]] - np.eye(200)[[1]]))
    for epsilon, most in ((0.0, 1.003), (0.5, 1.06), (0.8, 1.7)):  # of .2418, .0621 and .0064
        excess = np.maximum(-np.expm1(epsilon - draws), 0) / (1 + np.exp(-draws))
        error = 5 * excess.std() / np.sqrt(draws.size)
        bound = law.delta(epsilon)[0]
        assert excess.mean() - error <= bound <= most * excess.mean() + error
        assert epsilon == 0 or bound < 0.6 * base.delta(epsilon)[0]


def test_the_closest_point_in_l1_leaves_the_other_cells_independent():
    view = cdp.Imaged(
        dist.Laplace(np.zeros(4), 1.0), cdp.totals([0] * 4, [1.0, 1, 1, 2]), metric="l1"
    )
    v = csr_array(np.array([[1.0, -1, 0, 0], [1, 1, 0, -1]]))
    law = view.loss(v)
    assert law.kind == "exact" and law.sup.tolist() == [2.0, 2.0]
    assert_allclose(law.delta(0.5), 0.350496, rtol=1e-5)


def test_one_cell_of_a_maximum_entropy_release_is_its_base():
    """Pure ε = |v_i|/λ_i, proven; nothing of two cells, or of all."""
    inv, scale = cdp.totals([0] * 4), np.array([1.0, 2, 1.5, 2])
    v = csr_array(np.array([[1.0, -1, 0, 0], [0, 3, -3, 0]]))
    cell = csr_array(np.array([[0.0, 2, 0, 0], [0, 0.5, 0, 0]]))  # of cell 1 alone
    grid = np.array([[0.0], [0.3]])
    for make in (dist.Laplace, dist.Logistic, lambda loc, s: dist.StudentT(5.0, loc, s)):
        for scales in ("couple", "shared"):
            view = cdp.MaxEntropy(make(np.zeros(4), scale), inv, scales=scales)
            law = view.loss(v, cell[[0]])
            assert law.kind == law.sup_kind == "exact"
            x = np.linspace(-60, 60, 120_001)
            p = np.exp(np.asarray(make(0.0, 2.0).log_prob(x)))
            for j, move in enumerate((1.0, 3.0)):
                q = np.exp(np.asarray(make(0.0, 2.0).log_prob(x + move)))
                brute = np.maximum(p - np.exp(grid) * q, 0).sum(axis=1) * 1e-3
                assert_allclose(law.delta(grid)[:, j], brute, atol=2e-5)
            if scales == "couple":
                assert_allclose(view.loss(v, cell).delta(grid), law.delta(grid), rtol=1e-12)
            for query in (None, csr_array(np.eye(4)[:2])):
                with pytest.raises(UnsupportedError, match="No guarantee is proved"):
                    view.loss(v, query)
    laplace = cdp.MaxEntropy(dist.Laplace(np.zeros(4), scale), inv)
    assert_allclose(laplace.loss(v, cell).sup, [0.5, 1.5], rtol=1e-14)
    pair = cdp.MaxEntropy(dist.Laplace(np.zeros(4), scale), inv, scales="shared")
    row = csr_array(np.array([[1.0, -1, 0, 0]]))
    sd = np.sqrt(row @ np.asarray(pair.covariance_matrix) @ row.T / 2).item()
    assert_allclose(pair.loss(v, row).sup, [2 / sd, 3 / sd], rtol=1e-9)


def test_one_law_is_worked_out_once_and_the_dominated_are_left_out():
    inv = cdp.totals(np.repeat(np.arange(40), 3))
    v = np.zeros((40, 120))
    v[np.arange(40), 3 * np.arange(40)], v[np.arange(40), 3 * np.arange(40) + 2] = 1, -1
    law = cdp.Conditioned(dist.Laplace(np.zeros(120), 1.0), inv).loss(csr_array(v))
    assert law.frontier().tolist() == [0] and np.ptp(law.delta(0.5)) == 0
    scale = np.tile([1.0, 1.5, 2.0], 40)
    scale[30:] *= 10
    v[1] = np.eye(120)[0] - np.eye(120)[1]  # of smaller scales in the group of row 0
    law = cdp.Conditioned(dist.Laplace(np.zeros(120), scale), inv).loss(csr_array(v))
    # row 1 lies above rows 0, 2, …, 9 of like groups
    assert law.frontier().tolist() == [1, 10]
    grid = law.delta(np.linspace(0, 1.6, 9)[:, None])
    assert (grid.max(axis=1) == grid[:, law.frontier()].max(axis=1)).all()


def test_caps_of_laws_of_every_kind_lie_above_them():
    """One pair, a cell in no group, two such cells, a pair and a cell: none is lost to NaN."""
    inv = cdp.totals([0, 0, 0, 1, 1, 1, None, None], missing="free")
    v = np.zeros((5, 8))
    v[0, [0, 1]] = v[1, [3, 5]] = v[3, [0, 1]] = [1, -1]
    v[2, 6] = v[3, 6] = v[4, 6] = v[4, 7] = 1
    scale = np.linspace(1, 2, 8)
    law = cdp.Conditioned(dist.Laplace(np.zeros(8), scale), inv).loss(csr_array(v))
    by, grid = law.profile.profile, np.linspace(0, 1, 5)[:, None]
    caps = by.cap(grid, np.arange(len(by.makers)))[:, by.law]
    assert np.all(law.delta(grid) <= caps * (1 + 1e-8))
    assert 3 in law.frontier()  # of the largest supremum


@pytest.mark.parametrize("kind", ["conditioned", "imaged"])
def test_only_what_is_exact_is_answered(kind):
    view, v = plain(kind, 3, 1.0), csr_array(np.array([[1.0, -1, 0]]))
    noise = f"of the {kind} view of laplace noise has no closed form here"
    with pytest.raises(UnsupportedError, match=rf"`loss\(query=\)` {noise}. Ask for the whole"):
        view.loss(v, v)
    with pytest.raises(UnsupportedError, match=rf"`deviation` {noise}. Pass key="):
        view.deviation()
    if kind == "imaged":
        with pytest.raises(UnsupportedError, match=rf"`entropy` {noise}. Use entropy_estimate"):
            view.entropy()
    batch = plain(kind, 3, np.array([[1.0], [2.0]]) * np.ones(3))
    with pytest.raises(
        ValueError, match=r"`loss` is about one mechanism; got a batch of shape \(2,\)"
    ):
        batch.loss(v)


def test_weighted_imaging_has_no_exposure():
    view = cdp.Imaged(dist.Laplace(np.zeros(12), SCALE), INV, weights=COSTS)
    with pytest.raises(UnsupportedError, match="Name the differences to protect against"):
        view.exposure  # noqa: B018


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda b, inv: cdp.MaxEntropy(
                b, cdp.linear([[1, 1, 1, 0], [0, 1, 1, 1]]), scales="resample"
            ),
            UnsupportedError,
            "need disjoint or nested totals",
        ),
        (
            lambda b, inv: cdp.Conditioned(b, inv, total=[3.0, 1.0]),
            ValueError,
            "`total` must have one number per total",
        ),
        (
            lambda b, inv: cdp.MaxEntropy(b, inv, scales="other"),
            ValueError,
            "`scales` must be one of",
        ),
        (
            lambda b, inv: cdp.Imaged(dist.Laplace(np.zeros(3), 1.0), inv),
            ValueError,
            "`base` must have the invariant's 4 cells",
        ),
        (
            lambda b, inv: cdp.Imaged(b, inv, weights=[1.0, 0, 1, 1]),
            ValueError,
            "`weights` must be positive",
        ),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call(dist.Laplace(jnp.zeros(4), 1.0), cdp.totals([0] * 4))


def test_imaged_to_another_total(key):
    """Public totals other than the base's: a shifted centre, the same noise."""
    view = cdp.Imaged(dist.Laplace(np.zeros(4), 1.0), cdp.totals([0] * 4), total=[6.0])
    assert_allclose(view.mean, np.full(4, 1.5))
    y = view.sample(key, (5,))
    assert_allclose(y.sum(-1), 6.0, rtol=1e-12)
    own = plain("imaged", 4, 1.0)
    assert_allclose(view.log_prob(y), own.log_prob(y - 1.5), rtol=1e-12)
