"""What the library says of its arguments is said of the options that a person typed."""

import pytest
import typer

from cdp_views._checks import choice
from cdp_views.cli.app import app
from cdp_views.cli.options import in_options, options_of

RELEASE = {
    "counts": "--count", "count": "--count", "within": "--within", "view": "--view",
    "noise": "--noise", "accept_exact": "--accept-exact", "names": "--names",
    "epsilon": "--epsilon",
}  # fmt: skip


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ("`view` must be one of …; got 'x'.", "--view must be one of …; got 'x'."),
        ("`counts` must be whole.", "--count must be whole."),
        ('Use view="imaged", or noise="normal".', "Use --view imaged, or --noise normal."),
        ('Use noise="normal" or "laplace".', "Use --noise normal or laplace."),
        ("accept it (accept_exact=True, --accept-exact).", "accept it (--accept-exact)."),
        ("a column (names=, --names).", "a column (--names)."),
        ("or use cdp.Conditioned or cdp.Imaged", "or use --view conditioned or --view imaged"),
        ("got epsilon=0.5.", "got --epsilon 0.5."),
        # what is no argument of the command: a path, a key of a file, an inequality
        ("`view.csv` and `loc` at n=5, epsilon == 1", "`view.csv` and `loc` at n=5, epsilon == 1"),
    ],
)
def test_arguments_are_called_as_options(said, want):
    assert in_options(said, RELEASE) == want


def test_the_options_are_those_of_the_command_that_was_typed():
    group = typer.main.get_command(app)
    release = options_of(group, ["release", "t.csv", "--view", "ledger"])
    assert RELEASE.items() - release.items() == {("counts", "--count")}
    assert release["table"] == "TABLE" and "view" not in options_of(group, ["compare", "release"])
    assert set(options_of(group, ["ledger", "new", "show"])) == {"file", "epsilon", "delta"}
    assert in_options("cdp.MaxEntropy", options_of(group, ["compare"])) == "max-entropy"
    assert options_of(group, []) != release  # of no command: `--version` alone


def test_a_slip_of_the_pen_is_seen():
    with pytest.raises(ValueError, match=r'got \'conditional\'. Did you mean "conditioned"\?$'):
        choice("view", "conditional", ("conditioned", "imaged"))
    with pytest.raises(ValueError, match=r"got 812345.$"):
        choice("view", 812345, ("conditioned", "imaged"))
