"""Ratios of time and memory against named rivals: `python -m benchmarks`."""
