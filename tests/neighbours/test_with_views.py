"""Every unit of privacy through the evaluator, against the same differences written out."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import cdp_views as cdp

from .dense import conditioned, every_pair, imaged, invariant, normal, value
from .test_households import every_household
from .test_moves import every_move
from .test_series import every_series
from .test_units import every_unit

LABELS, WEIGHTS = [0, 0, 0, 0, 1, 1], [1.0, 1.0, 2.0, 2.0, 1.0, 1.0]
SIGMA = np.array([1.0, 0.5, 0.8, 2.0, 0.7, 1.5])


def table(weights=None, total=None):
    inv = cdp.totals(LABELS, weights=weights)
    base = dist.Normal(jnp.zeros(6), jnp.asarray(SIGMA))
    views = (cdp.Conditioned(base, inv, total=total), cdp.Imaged(base, inv, total=total))
    return inv, views, invariant(LABELS, weights)


def test_units_of_moving_records_agree_with_all_of_their_differences():
    for weights in (None, WEIGHTS):
        inv, views, dense = table(weights)
        units = [
            (cdp.households(inv, size=2), every_household(dense, 2)),
            (cdp.series(inv), every_series(dense)),
        ]
        if weights:
            units += [
                (cdp.relocations(inv, unit=unit), every_unit(dense, unit))
                for unit in ("total", "whole")
            ]
        A = dense.matrix.toarray()
        for view, form in zip(views, (conditioned, imaged), strict=True):
            for nb, every in units:
                loss = cdp.privacy_loss(view, nb)
                want = value(normal(form(A, SIGMA)), every)
                assert loss.mu**2 == pytest.approx(want, rel=1e-6), nb.describe()
                assert nb.describe() in str(loss)


def test_totals_fixed_in_advance_let_records_come_and_go():
    total = jnp.array([1.0, -1.0])
    _, views, dense = table(total=total)
    A = dense.matrix.toarray()
    for view, form in zip(views, (conditioned, imaged), strict=True):
        for nb, every in (
            (cdp.additions(6), np.eye(6)),
            (cdp.replacements(view.invariant), every_pair(6)),
        ):
            want = value(normal(form(A, SIGMA)), every)
            assert cdp.privacy_loss(view, nb).mu ** 2 == pytest.approx(want, rel=1e-6)
    _, (computed, _), _ = table()
    for nb in (cdp.additions(6), cdp.replacements(6)):
        with pytest.raises(ValueError, match="infinite"):
            cdp.privacy_loss(computed, nb)


@pytest.mark.parametrize(
    "make", [cdp.Conditioned, pytest.param(cdp.MaxEntropy, marks=pytest.mark.slow)]
)
def test_moves_of_a_table_of_unequal_scales(make):
    shape, keep = (3, 4), [(0,), (1,)]
    inv, every = cdp.margins(shape, keep=keep), every_move(shape, keep)
    sigma = jnp.asarray(np.random.default_rng(0).uniform(1, 1.3, 12))
    view = make(dist.Normal(jnp.zeros(12), sigma), inv)
    want = cdp.privacy_loss(view, cdp.differences(every)).mu
    assert cdp.privacy_loss(view, cdp.moves(inv)).mu == pytest.approx(want, rel=1e-9)


def test_a_person_in_two_columns():
    inv = cdp.totals(np.tile(["a", "b"], 3))  # three places of one county, each column a total
    view = cdp.Conditioned(dist.Normal(jnp.zeros(6), 1.0), inv)
    one, both = ([[1.0, 0.0]], [[1.0, 1.0]])
    for M, want in ((one, 2), (both, 4)):
        nb = cdp.relocations(inv, contribution=M)
        assert cdp.privacy_loss(view, nb).mu ** 2 == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize("unit", ["total", "whole"])
def test_profiles_of_groups_of_several_sizes_do_not_rest_on_pure_epsilon(unit):
    labels, weights = [0, 0, 0, 1, 1, 1, 2, 2], [1.0, 1, 2, 1, 1, 1, 1, 1]
    inv = cdp.totals(labels, weights=weights)
    view = cdp.Conditioned(dist.Laplace(jnp.zeros(8), 2.0), inv)
    every = cdp.differences(every_unit(invariant(labels, weights), unit))
    got, want = (cdp.privacy_loss(view, nb) for nb in (cdp.relocations(inv, unit=unit), every))
    for epsilon in (0.0, 0.5, 0.9):
        assert got.delta(epsilon) == pytest.approx(want.delta(epsilon), rel=1e-9)
