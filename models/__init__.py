"""NumPyro models of released data, written against the public API only."""
