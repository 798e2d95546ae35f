"""Maximum entropy: every marginal stays, and cells are as free as they can be."""
