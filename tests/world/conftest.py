"""Fixtures: `world`; `alice` its owner, `bob` a member, `guest`, `qwen` a model.

`bobs` and `own_bobs`: Bob, who asks with SQL in a world full of secrets.
"""

from support.asking import bobs, own_bobs
from support.people import alice, bob, guest, qwen, shared_world, world

__all__ = ["alice", "bob", "bobs", "guest", "own_bobs", "qwen", "shared_world", "world"]
