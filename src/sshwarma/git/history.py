"""The versions of a room for the process: author, date, message and changes.

All of it decides the ids of commits, and must be the same next year: messages have their own rule
here, and the name of an author is stored when it is first used.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, insert, select

from sshwarma.common.times import format_iso
from sshwarma.workspaces import manifests
from sshwarma.workspaces.manifests import Manifest
from sshwarma.workspaces.tree import Changes, Entry
from sshwarma.world import things
from sshwarma.world.schema import git_authors, git_pushes
from sshwarma.world.store import Change
from sshwarma.world.world import World

READ_VERSIONS: Final = 32
"""Versions that are read at once: other readers have their turn between."""

WORLD_NAME: Final = "sshwarma"
"""The author of versions that nobody made."""

_SUBJECTS: Final = {
    "user_upload": "Upload",
    "edit": "Edit",
    "tool_run": "Change",
    "branch": "Branch",
    "git_push": "Push",
}
_NAMED_PATHS: Final = 3
_PATH_LETTERS: Final = 60

Names = Mapping[str, Sequence[tuple[str, str]]]
"""By agent: from when on, and which name, oldest first."""


@dataclass(frozen=True, slots=True)
class History:
    """The versions that a repository lacks.

    Attributes:
        active_id: the present version; None before the first file.
        base_id: the newest version that the repository has; None without any.
        versions: those that follow it, oldest first.
        names: the names of their authors.
    """

    active_id: str | None
    base_id: str | None
    versions: Sequence[Manifest]
    names: Names


async def read_history(world: World, room_id: str, known: Collection[str]) -> History:
    """Return the versions of a room up to the present one, but for known ones."""

    def read(conn: Connection) -> tuple[str | None, list[Manifest], str | None]:
        active_id = read_newest_commit(conn, room_id)
        versions: list[Manifest] = []
        next_id = active_id
        while next_id is not None and next_id not in known:
            manifest = manifests.get_manifest(conn, next_id)
            if manifest is None or manifest.is_beginning:
                return active_id, versions, None
            versions.append(manifest)
            next_id = manifest.parent_id
        return active_id, versions, next_id

    active_id, versions, base_id = await world.store.read(read)
    authors = sorted({version.author_id for version in versions if version.author_id})
    names, is_complete = await world.store.read(lambda conn: _read_names(conn, authors))
    if not is_complete:
        names = await world.store.write(lambda tx: _store_names(tx, authors))
    return History(active_id, base_id, versions[::-1], names)


def read_newest_commit(conn: Connection, room_id: str) -> str | None:
    """Return the present version of a room, its newest commit; None without any."""
    active_id = manifests.read_active_id(conn, room_id)
    manifest = None if active_id is None else manifests.get_manifest(conn, active_id)
    return None if manifest is not None and manifest.is_beginning else active_id


async def encode_versions(world: World, history: History) -> AsyncIterator[bytes]:
    """Yield a line of JSON for each version, as `worker` reads it."""
    for start in range(0, len(history.versions), READ_VERSIONS):
        some = history.versions[start : start + READ_VERSIONS]

        def read(conn: Connection, some: Sequence[Manifest] = some) -> list[bytes]:
            pushes = _read_pushes(conn, [version.id for version in some])
            return [
                _encode_version(
                    version,
                    find_name(history.names, version),
                    manifests.read_changed_paths(conn, version),
                    pushes.get(version.id),
                )
                for version in some
            ]

        for line in await world.store.read(read):
            yield line


def _encode_version(
    version: Manifest,
    author: str,
    changes: Mapping[str, Entry | None],
    push: tuple[str, str] | None,
) -> bytes:
    described: dict[str, Any] = {
        "id": version.id,
        "author": author,
        "at": int(datetime.fromisoformat(version.created_at).timestamp()),
        "message": write_message(version, changes),
        "push": push,
        "changes": [
            [path, "" if entry is None else entry.sha256, 0 if entry is None else entry.mode]
            for path, entry in changes.items()
        ],
    }
    return json.dumps(described).encode() + b"\n"


def write_message(version: Manifest, changes: Changes) -> str:
    """Return the message of a commit. Another one would change the ids of all."""
    changed = sorted(changes)
    named = ", ".join(path[:_PATH_LETTERS] for path in changed[:_NAMED_PATHS]) or "nothing"
    rest = len(changed) - _NAMED_PATHS
    more = " and " + f"{rest} more" if rest > 0 else ""  # fixed, unlike `common.shorten`
    reference = f" {version.source_ref}" if version.source_ref else ""
    is_removal = bool(changes) and all(entry is None for entry in changes.values())
    verb = "Remove" if is_removal else _SUBJECTS.get(version.source, version.source)
    subject = f"{verb} {named}{more}"
    return f"{subject}\n\nVersion: {version.id}\nSource: {version.source}{reference}\n"


def find_name(names: Names, version: Manifest) -> str:
    """Return the name that the author of a version has in its commit."""
    if version.author_id is None:
        return WORLD_NAME
    known = names[version.author_id]
    at_that_time = [name for since, name in known if since <= version.created_at]
    return at_that_time[-1] if at_that_time else known[0][1]


def _read_names(conn: Connection, agent_ids: Sequence[str]) -> tuple[Names, bool]:
    """Return the stored names of agents, and whether they include the present ones."""
    names: dict[str, list[tuple[str, str]]] = {agent_id: [] for agent_id in agent_ids}
    query = select(git_authors).order_by(git_authors.c.since)
    for row in conn.execute(query.where(git_authors.c.agent_id.in_(agent_ids))):
        names[row.agent_id].append((row.since, row.name))
    is_complete = all(
        known and known[-1][1] == _present_name(conn, agent_id) for agent_id, known in names.items()
    )
    return names, is_complete


def _store_names(tx: Change, agent_ids: Sequence[str]) -> Names:
    """Store the present names of agents; return all names.

    The first one counts for all that came before, another one from now on.
    """
    names, _ = _read_names(tx.conn, agent_ids)
    for agent_id, known in names.items():
        name = _present_name(tx.conn, agent_id)
        if not known or known[-1][1] != name:
            since = format_iso(tx.now) if known else ""
            row = {"agent_id": agent_id, "since": since, "name": name}
            tx.conn.execute(insert(git_authors).values(row))
    return _read_names(tx.conn, agent_ids)[0]


def _present_name(conn: Connection, agent_id: str) -> str:
    """Return the name of an agent, without what ends a name in a commit."""
    thing = things.get_thing(conn, agent_id)
    name = WORLD_NAME if thing is None else thing.name
    return "".join(letter for letter in name if letter.isprintable() and letter not in "<> ")


def _read_pushes(conn: Connection, manifest_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the head and the pack of the versions that were pushed."""
    query = select(git_pushes).where(git_pushes.c.manifest_id.in_(manifest_ids))
    return {row.manifest_id: (row.head, row.pack_sha256) for row in conn.execute(query)}
