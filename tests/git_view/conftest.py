"""Fixtures: worlds; `alice`, an owner, `bob`, a member, `guest`."""

from support.people import alice, bob, guest, world

__all__ = ["alice", "bob", "guest", "world"]
