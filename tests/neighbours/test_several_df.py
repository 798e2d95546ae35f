"""Student-t noise whose cells have several df: the worst pair against all of them."""

from functools import partial
from itertools import combinations

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import sparse

import cdp_views as cdp
from cdp_views._checks import UnsupportedError
from cdp_views.loss import BoundedLoss
from cdp_views.views._suprema import along_fibre, student_exposure, student_supremum

from .dense import every_pair

LABELS = np.array([0, 0, 0, 0, 0, 1, 1, 1])
WEIGHTS = np.array([1.0, 1, 1, 2, 2, 1, 1, 2])


def laws(df, scale, weights):
    """Pure ε of conditioned, and of imaged noise; where totals change, of the base's cells."""

    def supremum(v, cells):
        return student_supremum(df[cells], v / scale[cells])

    def law(u, V):
        return BoundedLoss(along_fibre(sparse.csr_array(V), u, LABELS, 2, supremum))

    return [partial(law, u) for u in (np.zeros(df.size), weights)]


def ordered(seed):
    """df and scales of eight cells that are ordered at every change, in any place."""
    rng = np.random.default_rng(seed)
    df = np.sort(rng.choice([0.4, 1.0, 3.0, 30.0, 200.0], 8))
    slope = np.sort(rng.choice([0.2, 0.5, 1.0, 1.4, 2.0, 6.0], 8))
    mixed = rng.permutation(8)
    return df[mixed], ((df + 1) / (2 * np.sqrt(df) * slope))[mixed]


def every(inv, of, k):
    """All differences of a relation, written out."""
    n, b = inv.n, WEIGHTS
    pairs = every_pair(n)
    within = [v for v in pairs if np.all(inv.matrix @ v == 0)]
    if of == "replacements":
        return k * pairs
    if of == "relocations":
        return k * np.array(within)
    if of == "exchanges":
        own = [LABELS[np.argmax(v != 0)] for v in within]
        both = combinations(range(len(within)), 2)
        return np.array([within[i] + within[j] for i, j in both if own[i] != own[j]])
    found = []
    for i, j in combinations(range(n), 2):
        if LABELS[i] == LABELS[j]:
            v = np.zeros(n)
            v[i], v[j] = b[j], -b[i]
            found.append(k * v / np.gcd(int(b[i]), int(b[j])))
    return np.array(found)


@pytest.mark.parametrize("weights", [np.ones(8), WEIGHTS], ids=["plain", "weighted"])
def test_the_worst_of_every_relation_is_found(weights):
    inv = cdp.totals(list(LABELS), None if np.all(weights == 1) else weights)
    relations = {
        "relocations": (cdp.relocations(inv), 1),
        "three records": (cdp.relocations(inv, records=3), 3),
        "exchanges": (cdp.exchanges(inv), 1),
        "replacements": (cdp.replacements(inv, records=2), 2),
    }
    if np.any(weights != 1):
        relations["whole moves"] = (cdp.relocations(inv, unit="whole"), 1)
    names = {"three records": "relocations"}
    for seed in range(5):
        df, scale = ordered(seed)
        exposure = student_exposure(df, 1 / scale)
        for law in laws(df, scale, weights):
            for name, (relation, k) in relations.items():
                truth = law(every(inv, names.get(name, name), k)).sup.max()
                found = law(relation.worst(exposure, law)).sup.max()
                assert found == pytest.approx(truth, rel=1e-12), (seed, name)


def test_scales_alone_do_not_tell():
    df, scale = np.array([1.0, 1, 30, 30, 1, 1, 1, 1]), np.ones(8)
    inv = cdp.totals(list(LABELS))
    law = laws(df, scale, np.ones(8))[0]
    missed = law(cdp.relocations(inv).shortlist(1 / scale)).sup.max()
    assert missed < 0.5 * law(every(inv, "relocations", 1)).sup.max()


@pytest.mark.parametrize("view", [cdp.Conditioned, cdp.Imaged])
def test_views_of_several_df(view):
    inv = cdp.totals(["a"] * 4)
    noise = dist.StudentT(np.array([1.0, 1, 30, 30]), np.zeros(4), 1.0)
    made = view(noise, inv)
    got = cdp.privacy_loss(made, cdp.relocations(inv))
    stated = cdp.privacy_loss(made, cdp.differences([[0, 0, 1, -1]]))
    assert got.pure_epsilon == stated.pure_epsilon
    assert got.pure_epsilon == pytest.approx(62 * np.arcsinh(1 / (2 * np.sqrt(30))), rel=1e-6)
    assert got.worst.cells == (2, 3)
    household = cdp.privacy_loss(made, cdp.households(inv, size=2))
    assert household.pure_epsilon == pytest.approx(2 * got.pure_epsilon, rel=1e-12)
    assert household.pure_kind == "bound"


def test_cells_without_one_order_are_refused():
    inv = cdp.totals(["a"] * 4)
    # small changes show more in cell 3, large ones in cell 0
    scale = np.array([10.0, 10, 10, 0.5])
    view = cdp.Imaged(dist.StudentT(np.array([30.0, 30, 30, 1]), np.zeros(4), scale), inv)
    with pytest.raises(UnsupportedError, match=r"^`df` and `scale`[^\n]+differences\(V\)[^\n]+$"):
        cdp.privacy_loss(view, cdp.relocations(inv))
    stated = cdp.privacy_loss(view, cdp.differences(every_pair(4)))
    assert stated.pure_epsilon > 0 and len(stated.by_pair()) >= 2


def test_one_df_is_ordered_by_scale():
    rate = np.array([1.0, 3, 2])
    assert np.array_equal(student_exposure(3.0, rate), rate)
    assert np.array_equal(student_exposure(np.full(3, 3.0), rate), rate)
