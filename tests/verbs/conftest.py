"""Fixtures: worlds; `alice`, an owner, `bob`, a member, `guest`, `qwen`, a model."""

from support.people import alice, bob, guest, qwen, shared_world, world

__all__ = ["alice", "bob", "guest", "qwen", "shared_world", "world"]
