"""Fixtures: worlds; `alice`, an owner, and `bob`, a member."""

from support.people import alice, bob, world

__all__ = ["alice", "bob", "world"]
