"""Everything anyone can do, declared once and offered at every door.

Importing the package declares every verb.
"""

from sshwarma.verbs import (
    building,
    examining,
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
    "examining",
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
