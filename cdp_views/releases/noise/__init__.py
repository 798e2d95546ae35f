"""The noise of a release as a function of its secret, and what closes its totals."""
