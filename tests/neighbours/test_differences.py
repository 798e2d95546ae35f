from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from cdp_views.neighbours import differences

ROWS = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]])


@pytest.mark.parametrize(
    "make", [np.asarray, np.ndarray.tolist, sparse.csr_array, sparse.coo_matrix, sparse.csc_array]
)
def test_every_stated_difference_is_tried(make):
    V = differences(make(ROWS)).shortlist(np.ones(3))
    assert sparse.issparse(V)
    assert V.format == "csr"
    np.testing.assert_array_equal(V.toarray(), ROWS)


def test_one_difference_may_be_a_vector():
    nb = differences([1, -1])
    assert nb.shortlist([1, 1]).shape == (1, 2)
    assert nb.describe() == "the true answers change by the one stated difference"


def test_it_says_what_it_protects():
    assert str(differences(ROWS)) == "the true answers change by one of 2 stated differences"


def test_the_users_matrix_is_copied():
    mine = sparse.csr_array(ROWS)
    nb = differences(mine)
    mine.data[:] = 9
    np.testing.assert_array_equal(nb.shortlist(np.ones(3)).toarray(), ROWS)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ([[1, -1], [0, 0]], "must change something in each row; got only zeros in row 1"),
        (sparse.csr_array(([0.0], ([0], [1])), shape=(1, 2)), "only zeros in row 0"),
        (sparse.coo_array(([1.0, -1.0], ([0, 0], [1, 1])), shape=(1, 2)), "only zeros in row 0"),
        (sparse.csr_array(([1.0, -1.0], [1, 1], [0, 2]), shape=(1, 2)), "only zeros in row 0"),
        ([[1, -1], [1, np.nan]], "must be finite; got nan in row 1"),
        ([[np.inf, 0]], "must be finite; got inf in row 0"),
        (np.zeros((0, 3)), r"at least one difference; got shape \(0, 3\)"),
        ([], "at least one difference"),
        ("abc", "must be a numeric matrix"),
        ([[1, 2], [3]], "must be a numeric matrix"),
        (np.zeros((2, 2, 2)), "must be a "),
    ],
)
def test_bad_matrix(bad, match):
    with pytest.raises(ValueError, match=rf"^`V` [^\n]*{match}[^\n]*$"):
        differences(bad)


def test_wrong_number_of_cells():
    with pytest.raises(ValueError, match=r"^`V` must have one column per cell, 4; got 3"):
        differences(ROWS, SimpleNamespace(n=4))
    assert differences(ROWS, SimpleNamespace(n=3)).n == 3
