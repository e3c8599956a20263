"""Everything anyone can do, declared once and offered at every door.

Importing the package declares every verb.
"""

from sshwarma.verbs import (
    building,
    context,
    crafting,
    examining,
    external,
    inventory,
    journal,
    looking,
    models,
    moderation,
    moving,
    namespaces,
    remembering,
    reporting,
    roster,
    running,
    skills,
    talking,
    tokens,
    turning,
    upkeep,
    yourself,
)

__all__ = [
    "building",
    "context",
    "crafting",
    "examining",
    "external",
    "inventory",
    "journal",
    "looking",
    "models",
    "moderation",
    "moving",
    "namespaces",
    "remembering",
    "reporting",
    "roster",
    "running",
    "skills",
    "talking",
    "tokens",
    "turning",
    "upkeep",
    "yourself",
]
