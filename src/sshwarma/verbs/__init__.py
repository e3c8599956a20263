"""Everything anyone can do, declared once and offered at every door.

Importing the package declares every verb.
"""

from sshwarma.verbs import (
    building,
    inventory,
    looking,
    models,
    moderation,
    moving,
    remembering,
    running,
    talking,
    upkeep,
    yourself,
)

__all__ = [
    "building",
    "inventory",
    "looking",
    "models",
    "moderation",
    "moving",
    "remembering",
    "running",
    "talking",
    "upkeep",
    "yourself",
]
