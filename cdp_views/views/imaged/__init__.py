"""Imaging: every noisy world moves to its closest world where the totals hold."""
