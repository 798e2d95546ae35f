"""Sums over groups, stored or not, against plain sums: from 65,536 cells on they go in blocks."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cdp_views._segments import Segments

N = 70_000  # more than 8 blocks of 8192, and a rest


def labels_of(kind):
    random = np.random.default_rng(11)
    if kind == "one group":
        return np.zeros(N, dtype=int), 1
    if kind == "equal and contiguous":
        return np.repeat(np.arange(700), 100), 700
    if kind == "one group and free cells":
        return np.where(random.random(N) < 0.01, 1, 0), 1
    # one of 20,000 cells, some of hundreds, many of a few, and 999 free cells
    sizes = np.concatenate([[20_000], random.integers(200, 400, 50), [999]])
    few = N - sizes.sum()
    labels = np.concatenate([np.repeat(np.arange(52), sizes), 52 + np.arange(few) // 4])
    labels = np.where(labels == 51, labels.max() + 1, labels)
    labels = np.unique(labels, return_inverse=True)[1]
    return random.permutation(labels), labels.max()


KINDS = (
    "one group",
    "equal and contiguous",
    "one group and free cells",
    "unequal, scrambled, free cells",
)


@pytest.fixture(params=KINDS, ids=str)
def seg(request):
    return Segments.of(*labels_of(request.param))


def dense(seg, x):
    """Sums by NumPy in more than float64."""
    rows = np.asarray(x, np.longdouble).reshape(-1, seg.n)
    sums = np.zeros((len(rows), seg.count + 1), np.longdouble)
    np.add.at(sums, (slice(None), np.asarray(seg.labels)), rows)
    return sums[:, :-1].astype(float).reshape(*np.shape(x)[:-1], seg.count)


def waves(b, x, t):
    return jnp.sin(x) * b + x * t, b * jnp.exp(-x * x) * t


def first_wave(b, x, t):
    return waves(b, x, t)[0]


def arguments(seg, dtype):
    """Weights (n,), cells (2, n) and group numbers (2, G)."""
    random = np.random.default_rng(5)
    b = jnp.asarray(np.exp(random.normal(size=N)), dtype)
    x = jnp.asarray(random.normal(size=(2, N)), dtype)
    return b, x, jnp.asarray(random.normal(size=(2, seg.count)), dtype)


def plain(function, seg, b, x, t):
    value = function(b, x, seg.spread(t))
    return jax.tree.map(seg.sum, value)


def close(mine, theirs, size, dtype):
    """Within rounding of what was added."""
    for a, b, s in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), size, strict=True):
        assert np.all(np.abs(np.asarray(a) - np.asarray(b)) <= 16 * jnp.finfo(dtype).eps * s)


def test_sums_that_store_nothing(seg, precision):
    b, x, t = arguments(seg, precision)
    parts = waves(b, x, seg.spread(t))
    exact, size = [dense(seg, v) for v in parts], [dense(seg, np.abs(v)) for v in parts]

    def both(b, x, t):
        return seg.accumulate(waves, (b, x), (t,))

    pair = jax.jit(both)(b, x, t)
    assert all(v.dtype == precision and v.shape == (2, seg.count) for v in pair)
    close(pair, exact, size, precision)
    one = seg.accumulate(first_wave, (b, x), (t,))
    close([one], exact[:1], size[:1], precision)
    close(jax.jit(jax.vmap(both, (None, 0, 0)))(b, x, t), exact, size, precision)
    close(jax.tree.map(seg.sum, parts), exact, size, precision)


def test_one_number_for_all_cells(precision):
    seg = Segments.of(*labels_of("unequal, scrambled, free cells"))
    _, x, _ = arguments(seg, precision)
    two = jnp.full((1,), 2, precision)
    total = seg.accumulate(lambda b, x: b * x, (two, x))
    close([total], [dense(seg, 2 * x)], [dense(seg, 2 * np.abs(x))], precision)
    # no cell of full length at all
    count = seg.accumulate(lambda b: b, (two,))
    np.testing.assert_array_equal(count, 2 * np.asarray(seg.sizes))


@pytest.mark.parametrize("seg", [KINDS[2], KINDS[3]], indirect=True)
def test_derivatives_are_those_of_plain_sums(seg, precision):
    b, x, t = arguments(seg, precision)
    db, dx, dt = jnp.cos(x[0]), jnp.sin(b) * x, t**2
    mine = jax.jit(lambda *a: jax.jvp(lambda *a: seg.accumulate(waves, a[:2], a[2:]), a[:3], a[3:]))
    theirs = jax.jit(lambda *a: jax.jvp(lambda *a: plain(waves, seg, *a), a[:3], a[3:]))
    size = [1 + dense(seg, np.full((2, N), 20.0) * np.asarray(b))] * 4
    close(mine(b, x, t, db, dx, dt), theirs(b, x, t, db, dx, dt), size, precision)

    def score(sums):
        return jnp.sum(jnp.cos(sums[0] / 100)) + jnp.sum(sums[1])

    arg = (0, 1, 2)
    mine = jax.jit(jax.grad(lambda *a: score(seg.accumulate(waves, a[:2], a[2:])), arg))
    theirs = jax.jit(jax.grad(lambda *a: score(plain(waves, seg, *a)), arg))
    for g, h in zip(mine(b, x, t), theirs(b, x, t), strict=True):
        assert float(jnp.abs(h).max()) > 0.1
        limit = 100 * jnp.finfo(precision).eps
        np.testing.assert_allclose(g, h, rtol=limit, atol=limit * float(jnp.abs(h).max()))


def test_large_groups_are_summed_in_parts(precision):
    """Equal numbers added one by one drift; in parts they do not."""
    seg = Segments.of(*labels_of("unequal, scrambled, free cells"))
    assert seg.over is not None
    x = jnp.full((N,), 0.1, precision)
    largest = int(np.argmax(np.asarray(seg.sizes)))
    exact = 20_000 * float(x[0])
    eps = jnp.finfo(precision).eps
    one_by_one = replace(seg)  # the parts are not copied
    assert one_by_one.over is None
    assert abs(float(seg.sum(x)[largest]) / exact - 1) < 16 * eps
    assert abs(float(one_by_one.sum(x)[largest]) / exact - 1) > 64 * eps


def test_other_labels_keep_no_stale_parts():
    """`replace` with labels in another order sums by these labels."""
    seg = Segments.of(*labels_of("unequal, scrambled, free cells"))
    ordered = replace(seg, labels=jnp.sort(seg.labels))
    x = jnp.arange(N) % 7
    np.testing.assert_array_equal(ordered.sum(x), dense(ordered, x))


def test_a_partition_is_a_pytree():
    seg = Segments.of(*labels_of("unequal, scrambled, free cells"))
    again = jax.jit(lambda s: s)(seg)
    assert again.over.n == seg.over.n
    np.testing.assert_array_equal(again.target, seg.target)
    # every part has at most 64 cells, and every cell its group's part
    target, labels = np.asarray(seg.target), np.asarray(seg.labels)
    inside = labels < seg.count
    owner = np.asarray(seg.over.labels)
    np.testing.assert_array_equal(owner[target[inside]], labels[inside])
    large = np.asarray(seg.sizes)[owner] > 256
    assert np.bincount(target[inside], minlength=seg.over.n)[large].max() <= 64


def test_neighbours_of_one_group_are_added_by_turns():
    """So that no sum waits for the one before; the sums are the same."""
    labels, count = labels_of("unequal, scrambled, free cells")
    seg = Segments.of(np.sort(labels), count)
    target, inside = np.asarray(seg.target), np.asarray(seg.labels) < count
    assert not np.any((target[1:] == target[:-1]) & inside[1:])
    x = jnp.arange(N) % 7
    np.testing.assert_array_equal(seg.sum(x), dense(seg, x))


def test_no_groups_at_all():
    none = Segments.of(np.zeros(3, int), 0)
    x = jnp.arange(6.0).reshape(2, 3)
    assert none.max(x).shape == none.sum(x).shape == (2, 0)
    np.testing.assert_array_equal(none.spread(none.max(x)), np.zeros((2, 3)))
