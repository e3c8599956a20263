"""Contents of files that are missing or damaged, and where they are used.

A content is named by versions of rooms, by toolsets and by pushes. Old versions name theirs for
good, so one that is lost stays lost; a backup can leave it out.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import text

from sshwarma.admin.world_place import PostgresWorld, WorldPlace, data_dir_of, read_world
from sshwarma.common.read_only_database import opened_read_only
from sshwarma.common.shorten import join_with_rest, shorten_name
from sshwarma.common.units import KIB, MIB
from sshwarma.settings import BLOBS_DIRECTORY
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.damaged_files import name_file
from sshwarma.workspaces.manifests import shorten_id
from sshwarma.world.migrate import DamagedDatabaseError

MAX_SHOWN_USES: Final = 5
"""Uses that a sentence names; JSON has more."""

MAX_LISTED_USES: Final = 1_000
"""Uses that JSON has."""

MAX_STORED_BYTES: Final = 24 * KIB
"""Bytes of the uses in the manifest of a backup, which a restore reads 64 KiB of."""

DAMAGE_ERRORS: Final = frozenset(
    {errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.EIO, errno.EBADMSG, errno.EUCLEAN}
)
"""Errors of a content that is not there, or on a bad part of the disk; others may pass."""

_USES: Final = (
    "SELECT 'room', coalesce(things.name, '')"
    " || CASE WHEN things.deleted_at IS NULL THEN '' ELSE ' (deleted)' END,"
    " used.path, min(manifests.id), used.sha256"
    " FROM (SELECT manifest_id, path, sha256 FROM manifest_entries{pushes}) AS used"
    " JOIN manifests ON manifests.id = used.manifest_id"
    " LEFT JOIN things ON things.id = manifests.chat_id"
    " WHERE used.sha256 IN ({hashes})"
    " GROUP BY things.id, manifests.chat_id, used.path, used.sha256"
    " UNION ALL SELECT 'toolset', toolset_id, path, '', sha256 FROM toolset_files"
    " WHERE sha256 IN ({hashes})"
    " ORDER BY 1, 2, 3, 4"
)
_PUSHES: Final = " UNION ALL SELECT manifest_id, '', pack_sha256 FROM git_pushes"
_HASHES_IN_FILE: Final = "SELECT value FROM json_each(:hashes)"
_HASHES_ON_POSTGRES: Final = "SELECT json_array_elements_text(CAST(:hashes AS json))"


@dataclass(frozen=True, slots=True)
class ContentUse:
    """Where a content is used.

    Attributes:
        room: name of the room; "" of a toolset.
        toolset: its id; "" of a room.
        path: of the file; "" of the commits that somebody pushed.
        version: short id of the first version of the room's files that has it; "" of a toolset.
    """

    room: str
    toolset: str
    path: str
    version: str
    sha256: str

    def __str__(self) -> str:
        if self.toolset:
            return f"{self.path} of the toolset {self.toolset}"
        return name_file(self.path or "pushed commits", self.room, self.version)


class DamagedContentsError(DamagedDatabaseError):
    """Contents that are missing or damaged, in a world whose database is not.

    Attributes:
        hashes: theirs.
    """

    def __init__(self, place: WorldPlace, hashes: Sequence[str], total: int) -> None:
        self.hashes = frozenset(hashes)
        directory = data_dir_of(place) / BLOBS_DIRECTORY
        first = BlobStore(directory).path_of(min(hashes))
        super().__init__(
            f"{describe_count(len(hashes), total)} missing or damaged:"
            f" {describe_uses(read_uses(place, hashes))}. The database is not damaged, and"
            f" nothing was written. Copy what is missing to {directory} from another disk or from a"
            f" backup, the first to {first}; or put the same file into a room again; or make a"
            " backup that lacks it: sshwarma backup FILE --without-damaged"
        )


def find_damaged(
    blobs: BlobStore, sizes: Mapping[str, int], check: Callable[[], None]
) -> list[str]:
    """Return the hashes of contents that are missing or damaged.

    Args:
        blobs: where they are.
        sizes: their sizes by hash.
        check: called again and again; what it raises ends the search.

    Raises:
        OSError: if one cannot be read for another reason, such as its mode.
    """
    return [sha256 for sha256 in sorted(sizes) if not _is_whole(blobs.path_of(sha256), check)]


def _is_whole(path: Path, check: Callable[[], None]) -> bool:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while part := file.read(MIB):
                check()
                digest.update(part)
    except OSError as error:
        if error.errno in DAMAGE_ERRORS:
            return False
        raise
    return digest.hexdigest() == path.name


def read_uses(place: WorldPlace, hashes: Iterable[str]) -> list[ContentUse]:
    """Return where a database uses contents, by room and path.

    Raises:
        sqlite3.DatabaseError: if it is a file that is damaged.
        UnreadableWorldError: if it is on PostgreSQL, and cannot be read.
    """
    values = {"hashes": json.dumps(sorted(hashes))}
    if isinstance(place, PostgresWorld):
        query = text(_USES.format(pushes=_PUSHES, hashes=_HASHES_ON_POSTGRES))
        rows = read_world(place, lambda conn: conn.execute(query, values).all())
        found = [tuple(row) for row in rows]
    else:
        with opened_read_only(place) as opened:
            tables = "SELECT name FROM sqlite_schema WHERE name = 'git_pushes'"
            has_pushes = opened.execute(tables).fetchone() is not None
            pushes = _PUSHES if has_pushes else ""
            statement = _USES.format(pushes=pushes, hashes=_HASHES_IN_FILE)
            found = opened.execute(statement, values).fetchall()
    return [
        ContentUse(
            name if kind == "room" else "",
            name if kind == "toolset" else "",
            path,
            shorten_id(version),
            sha256,
        )
        for kind, name, path, version, sha256 in found
    ]


def describe_count(count: int, total: int | None = None) -> str:
    """Return the beginning of a sentence about contents, with its verb."""
    of_all = "" if total is None else f" of {total}"
    is_one = count == 1 and total in (None, 1)
    return (
        f"{count}{of_all} content{'' if is_one else 's'} of files {'is' if count == 1 else 'are'}"
    )


def describe_uses(uses: Sequence[ContentUse], total: int = 0) -> str:
    """Return the first uses, and how many more there are.

    `total` is how many there are, if `uses` are only the first.
    """
    names = [str(use) for use in uses]
    return join_with_rest(names, MAX_SHOWN_USES, total=total, separator="; ")


def list_uses(uses: Sequence[ContentUse]) -> list[dict[str, str]]:
    """Return uses for JSON, MAX_LISTED_USES at most."""
    return [asdict(use) for use in uses[:MAX_LISTED_USES]]


def describe_left_out(place: WorldPlace, left_out: Mapping[str, int]) -> dict[str, Any]:
    """Return what the manifest of a backup says of contents that are not in it.

    Args:
        place: the copy that is in it, or the world.
        left_out: sizes of the contents by hash.
    """
    uses = read_uses(place, left_out)
    stored: list[dict[str, str]] = []
    for use in list_uses(uses):
        stored.append(use | {"path": shorten_name(use["path"])})
        if len(json.dumps(stored)) > MAX_STORED_BYTES:
            stored.pop()
            break
    return {
        "contents": len(left_out),
        "bytes": sum(left_out.values()),
        "uses": len(uses),
        "files": stored,
    }


def describe_listed(listed: Sequence[Mapping[str, str]], total: int) -> str:
    """Describe uses of which the first were listed for JSON, of `total`."""
    return describe_uses([ContentUse(**use) for use in listed], total)
