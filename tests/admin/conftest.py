"""Fixtures: `world`; `alice` its owner, `bob` a member, `guest`, `qwen` a model."""

from support.people import alice, bob, guest, qwen, world

__all__ = ["alice", "bob", "guest", "qwen", "world"]
