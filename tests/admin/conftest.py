"""Fixtures: a world with its people, its upkeep, and a backup."""

from support.backup_files import database, made
from support.people import alice, bob, guest, qwen, world
from support.upkeep import house

__all__ = ["alice", "bob", "database", "guest", "house", "made", "qwen", "world"]
