"""The actions that rows of the audit name: what `--verb` of the audit can choose."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, select

from sshwarma.verbs.registry import VerbGroup, every_entry, every_verb, find_entry, find_verb
from sshwarma.world.audit import FAILED_LOGIN, LOGIN
from sshwarma.world.errors import Invalid, unknown_name_error
from sshwarma.world.schema import audit
from sshwarma.world.world import World

OTHER_ACTIONS: Final = frozenset({
    LOGIN, FAILED_LOGIN, "register", "redeem invite", "move out", "end offer", "offer", "sftp",
    "export room", "git push", "retention",
})  # fmt: skip
"""Actions that are neither a verb nor a command of `sshwarma`."""

COMMANDS: Final = frozenset({
    "agents", "backup", "broadcast", "drain", "host-key", "import", "init", "invite", "keys",
    "migrate", "migrate-to", "recover", "reload", "restore", "token", "vacuum",
})  # fmt: skip
"""The commands of `sshwarma` that leave a row."""


async def choose_actions(world: World, typed: str) -> tuple[str, ...]:
    """Return the actions that somebody means by a name, as rows have them.

    The name of a group of verbs is all of them, and an alias is its verb.

    Raises:
        Invalid: with names that are near, if the program has no such action, and no row of the
            audit, which may be of another version.
    """
    name = " ".join(typed.lower().removeprefix("/").split())
    if found := _find_actions(name):
        return found
    recorded = await world.store.read(_read_actions)
    if name in recorded:
        return (name,)
    groups = {entry.name for entry in every_entry() if isinstance(entry, VerbGroup)}
    known = {*recorded, *OTHER_ACTIONS, *COMMANDS, *groups, *(verb.name for verb in every_verb())}
    hint = "The column before the request has the names, such as login, keys or room."
    unknown = unknown_name_error("action", typed, known=sorted(known), hint=hint)
    raise Invalid(unknown.message, hint=unknown.hints)


def _find_actions(name: str) -> tuple[str, ...]:
    """Return the actions of the program that a name means, or none."""
    found = {name} & (OTHER_ACTIONS | COMMANDS)
    entry = find_entry(name)
    if isinstance(entry, VerbGroup):
        found |= {verb.name for verb in entry.verbs}
    elif (verb := find_verb(name)) is not None and not found:
        found = {verb.name}
    return tuple(sorted(found))


def _read_actions(conn: Connection) -> set[str]:
    """Return the actions that rows of the audit have."""
    return set(conn.execute(select(audit.c.verb).distinct()).scalars())
