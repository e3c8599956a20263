"""Paths of the sftp door: logical names, never those of files on the disk.

/rooms/NAME/log.md         the log, as /export room writes it
/rooms/NAME/journal.md     the journal
/rooms/NAME/things/*.md    what lies in the room, as /examine shows it
/rooms/NAME/things/memory  the values of its session memory, byte for byte
/rooms/NAME/workspace/     the files of the room, which can be changed
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote

from sshwarma.common.shorten import shorten_name
from sshwarma.git.names import has_git_name
from sshwarma.workspaces.paths import find_path_problem
from sshwarma.world.errors import Forbidden, Invalid, NotFound

PlaceKind: TypeAlias = Literal[
    "top", "rooms", "room", "text", "things", "thing", "memory", "value", "workspace"
]

TEXTS: Final = ("log.md", "journal.md")
THINGS: Final = "things"
WORKSPACE: Final = "workspace"
MEMORY: Final = "memory"
READ_ONLY_KINDS: Final = frozenset(("text", "thing", "value"))
THING_SUFFIX: Final = ".md"

_NO_FILE_NAMES: Final = {".": "%2E", "..": "%2E%2E"}

GIT_NAME: Final = (
    "sftp neither shows nor changes .git, whose settings are programs that git runs."
    " git clone and git push work with the files of a room."
)


@dataclass(frozen=True, slots=True)
class Place:
    """What a path names.

    Attributes:
        room: the name of the room; "" above the rooms.
        name: of a text its name, of a thing its name, of a value its key, in a workspace the path;
            "" is the top of it.
    """

    kind: PlaceKind
    room: str = ""
    name: str = ""


def name_file_of_key(key: str) -> str:
    """Return the name of the file of a key, which may have slashes."""
    name = key.replace("%", "%25").replace("/", "%2F")
    return _NO_FILE_NAMES.get(name, name)


def resolve_path(path: bytes) -> str:
    """Return a path from the root, without `.`, `..` and repeated slashes.

    `..` at the root stays there: there is nothing above it.

    Raises:
        Invalid: if it is not UTF-8.
    """
    try:
        text = path.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"A path must be UTF-8 (byte {error.start} is not).") from error
    return posixpath.normpath(f"/{text.lstrip('/')}")


def _find_thing_place(room: str, parts: list[str]) -> Place | None:
    """Return what a path below `things` names; None if nothing can be there."""
    match parts:
        case []:
            return Place("things", room)
        case [name] if name == MEMORY:
            return Place("memory", room)
        case [name] if name.endswith(THING_SUFFIX):
            return Place("thing", room, name.removesuffix(THING_SUFFIX))
        case [folder, name] if folder == MEMORY:
            return Place("value", room, unquote(name))
    return None


def parse_place(path: bytes, *, changes: bool = False) -> Place:
    """Return what a path names, whether or not it exists.

    A folder `.git` names programs that every git in it runs: who copies a room would run those of
    others. So nothing is at such a path, in any spelling.

    Args:
        path: what the client says.
        changes: whether something is to be made or changed there.

    Raises:
        Invalid: if no file of a workspace can have the path.
        NotFound: if nothing can be there.
        Forbidden: if it is to be changed, and a part of it is a name of git's own folder.
    """
    full = resolve_path(path)
    match full.strip("/").split("/"):
        case [""]:
            return Place("top")
        case ["rooms"]:
            return Place("rooms")
        case ["rooms", room]:
            return Place("room", room)
        case ["rooms", room, name] if name in TEXTS:
            return Place("text", room, name)
        case ["rooms", room, folder, *parts] if folder == THINGS and len(parts) < 3:
            if place := _find_thing_place(room, parts):
                return place
        case ["rooms", room, folder, *parts] if folder == WORKSPACE:
            name = "/".join(parts)
            if name and (problem := find_path_problem(name)):
                raise Invalid(f"The path {shorten_name(name)!r} {problem}.")
            if has_git_name(name) and changes:
                raise Forbidden(GIT_NAME)
            if has_git_name(name):
                raise NotFound(f"Nothing is at {shorten_name(full)!r}.")
            return Place("workspace", room, name)
    raise NotFound(f"Nothing is at {shorten_name(full)!r}.")
