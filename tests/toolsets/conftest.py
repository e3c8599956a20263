"""Fixtures: worlds, and `alice`, an owner."""

from support.people import alice, world

__all__ = ["alice", "world"]
