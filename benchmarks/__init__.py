"""Benchmarks: each module runs alone (`python -m benchmarks.NAME`), `make bench` runs them all."""
