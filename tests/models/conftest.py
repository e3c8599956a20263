"""Fixtures: `world`; `bob`, a member; `qwen`, a model; `house`, with models."""

from support.house import house
from support.people import bob, qwen, world

__all__ = ["bob", "house", "qwen", "world"]
