"""Conditioning: the base noise given that the totals hold."""
