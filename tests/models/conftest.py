"""Fixtures: `world`; `bob`, a member; `qwen`, a model."""

from support.people import bob, qwen, world

__all__ = ["bob", "qwen", "world"]
