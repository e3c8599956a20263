"""Benchmarks: `python -m benchmarks.NAME` runs one, `make bench` all."""
