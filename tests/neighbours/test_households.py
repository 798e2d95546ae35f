"""Households against every choice of their members' moves."""

from itertools import combinations_with_replacement, permutations
from types import SimpleNamespace

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import sparse

import cdp_views as cdp
from cdp_views._checks import UnsupportedError
from cdp_views.loss import BoundedLoss
from cdp_views.neighbours import households, relocations

from .dense import conditioned, fibre, imaged, invariant, laplace, normal, value


def every_household(inv, k):
    """Σ of k relocations (or none), each way round and of any block, written out."""
    n = inv.n
    one = [np.zeros(n)] + [
        np.eye(n)[i] - np.eye(n)[j]
        for i, j in permutations(range(n), 2)
        if inv.blocks[i] == inv.blocks[j]
    ]
    found = np.array([np.sum(c, axis=0) for c in combinations_with_replacement(one, k)])
    return found[np.abs(found).sum(axis=1) > 0]


@pytest.mark.parametrize("weights", [None, [1, 1, 2, 2, 1, 1]], ids=["plain", "weighted"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_all_members_along_the_worst_pair_are_the_worst_in_every_view(k, weights):
    inv = invariant([0, 0, 0, 0, 1, 1], weights)
    A, every = inv.matrix.toarray(), every_household(inv, k)
    for seed in range(4):
        sigma = np.random.default_rng(seed).choice([0.3, 1.0, 1.2, 2.0], 6)
        for law in (
            normal(conditioned(A, sigma)),
            normal(imaged(A, sigma)),
            laplace(1 / sigma),
            fibre(A, 1 / sigma),
        ):
            found = households(inv, size=k).worst(1 / sigma, law)
            assert value(law, found) == pytest.approx(value(law, every), rel=1e-9)


def student(inv, scale, df=3.0):
    """A view of independent Student-t noise, of which pure ε is all that is known: Σ S(v_i)."""

    def loss(rows, query=None):
        a = abs(rows).toarray() / scale
        return BoundedLoss(np.sum((df + 1) * np.arcsinh(a / (2 * np.sqrt(df))), axis=1))

    return SimpleNamespace(invariant=inv, exposure=1 / scale, loss=loss)


VIEWS = {
    "independent": student,
    "imaged": lambda inv, scale: cdp.Imaged(dist.StudentT(3.0, np.zeros(inv.n), scale), inv),
    "cheapest": lambda inv, scale: cdp.Imaged(
        dist.StudentT(3.0, np.zeros(inv.n), scale), inv, metric="l1"
    ),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("labels", [[0, 0, 0, 1, 1, 1], [0] * 5, [0] * 3], ids=str)
@pytest.mark.parametrize("spread", [0.0, 0.1, 0.4])
def test_losses_that_flatten_are_larger_for_members_who_part(name, labels, spread):
    inv = cdp.totals(labels)
    scale = 1 + spread * np.arange(inv.n)
    view = VIEWS[name](inv, scale)
    truth = view.loss(sparse.csr_array(every_household(inv, 2))).sup.max()
    together = view.loss(households(inv, size=2).shortlist(1 / scale)).sup.max()
    got = cdp.privacy_loss(view, households(inv, size=2))
    one = cdp.privacy_loss(view, relocations(inv)).pure_epsilon
    assert together <= truth <= got.pure_epsilon * (1 + 1e-12)
    assert got.pure_epsilon == pytest.approx(2 * one, rel=1e-12)
    attained = spread == 0 and inv.n > 3
    assert attained <= (together < 0.99 * truth)
    assert got.pure_kind == ("exact" if attained and name == "independent" else "bound")
    if attained:
        worst = np.zeros((1, inv.n))
        worst[0, list(got.worst.cells)] = got.worst.values
        assert view.loss(sparse.csr_array(worst)).sup[0] == pytest.approx(truth, rel=1e-12)
    assert got.by_pair()["pure_epsilon"].max() == got.pure_epsilon


def test_four_members_and_the_closed_form():
    # no cell of either group twice: 8 S(1)
    inv = cdp.totals([0] * 4 + [1] * 5)
    got = cdp.privacy_loss(student(inv, np.ones(9), 2.0), households(inv, size=4))
    assert got.pure_epsilon == pytest.approx(8 * 3 * np.arcsinh(1 / np.sqrt(8)), rel=1e-12)
    assert got.pure_kind == "exact"
    assert got.worst.cells == (0, 1, 2, 3, 4, 5, 6, 7)


def test_what_may_be_worst_is_tried_where_nothing_is_known():
    def law(rows):
        raise UnsupportedError("no law")

    nb = households(invariant([0, 0, 0, 1, 1]), size=2)
    rows = nb.worst(np.array([1.0, 3, 2, 2, 1]), law).toarray().astype(int)
    assert rows.tolist() == [[0, 2, -2, 0, 0], [0, 0, 0, 2, -2], [0, 1, -1, 1, -1]]


def test_the_scale_follows():
    inv = cdp.totals([0] * 3 + [1] * 3)
    nb = households(inv, size=2)
    got = cdp.privacy_loss(student(inv, np.ones(6)), nb)
    assert (got.pure_epsilon, got.pure_kind) == (pytest.approx(4.556945, abs=1e-6), "exact")

    def view(scale):
        return cdp.Imaged(dist.StudentT(3.0, np.zeros(6), scale), inv)

    scale = float(cdp.calibrate(view, nb, epsilon=2.0))
    assert 16 * np.arcsinh(1 / (2 * np.sqrt(3) * scale)) == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("view", [cdp.Conditioned, cdp.Imaged])
@pytest.mark.parametrize(
    "base",
    [
        dist.Laplace(np.zeros(5), 1 + np.arange(5.0)),
        dist.Logistic(np.zeros(5), 1 + np.arange(5.0)),
        cdp.DiscreteLaplace(np.zeros(5, int), 2.0),
    ],
    ids=lambda base: type(base).__name__,
)
def test_norms_stay_as_they_were(view, base):
    if view is cdp.Conditioned and isinstance(base, dist.Logistic):
        return  # compiles a quadrature; its loss is that of Laplace noise
    inv = cdp.totals([0, 0, 0, 1, 1])
    made = view(base, inv)
    got = cdp.privacy_loss(made, households(inv, size=2))
    every = made.loss(sparse.csr_array(every_household(inv, 2)))
    assert got.pure_epsilon == pytest.approx(every.sup.max(), rel=1e-12)
    assert got.pure_kind == every.sup_kind and len(got.worst.cells) == 2


def test_the_proof_is_of_norms_only():
    nb = households(invariant([0, 0, 0]), size=2)
    assert nb.by_norm and nb.keeps_totals
    assert not relocations(invariant([0, 0])).by_norm


def test_a_query_and_other_totals():
    nb = households(invariant([0, 0, 0]), size=2)
    seen = nb.seen_by(sparse.csr_array([[1.0, 0, 0]])).toarray()
    assert np.abs(seen).tolist() == [[2, 2, 0]]
    with pytest.raises(ValueError, match="published apart"):
        nb.require(invariant([0, 0, 1]))


def test_it_says_what_it_protects():
    nb = households(invariant([0, 0]), size=np.int64(4))
    assert nb.members == 4
    assert str(nb).startswith("up to 4 members of a household move")


@pytest.mark.parametrize("size", [0, -1, 1.5, True, None, np.nan])
def test_bad_sizes(size):
    with pytest.raises(ValueError, match=r"^`size` must be a positive integer; got [^\n]+$"):
        households(invariant([0, 0]), size=size)


def test_nobody_can_move():
    with pytest.raises(ValueError, match=r"^`inv` must leave some record free to move"):
        households(invariant([0, 1]), size=2)
