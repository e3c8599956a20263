"""Fixtures: a world; `alice`, an owner; what an import has made of a source."""

from support.people import alice, bob, world

__all__ = ["alice", "bob", "world"]
