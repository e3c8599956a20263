"""The verbs: commands of people, models and programs, declared once for all doors.

Importing the package declares every verb.
"""

from sshwarma.verbs import (
    alias,
    answer,
    bags,
    branching,
    building,
    context,
    equip,
    examine,
    gc,
    help,
    history,
    inventory,
    journal,
    loading,
    looking,
    mcp,
    message,
    model,
    models,
    moderation,
    moving,
    namespaces,
    quit,
    room,
    run,
    set,
    skills,
    sql,
    state,
    stats,
    stop,
    talking,
    tokens,
    tool,
    undo,
    wrap,
)

__all__ = [
    "alias",
    "answer",
    "bags",
    "branching",
    "building",
    "context",
    "equip",
    "examine",
    "gc",
    "help",
    "history",
    "inventory",
    "journal",
    "loading",
    "looking",
    "mcp",
    "message",
    "model",
    "models",
    "moderation",
    "moving",
    "namespaces",
    "quit",
    "room",
    "run",
    "set",
    "skills",
    "sql",
    "state",
    "stats",
    "stop",
    "talking",
    "tokens",
    "tool",
    "undo",
    "wrap",
]


def load_verbs() -> None:
    """Declare every verb.

    Importing this package has done so; the call shows that a module depends on it.
    """
