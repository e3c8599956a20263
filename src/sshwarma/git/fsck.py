"""Checks of single objects by the rules of `git fsck --strict`.

Clients with `transfer.fsckObjects` refuse a whole clone for one object that breaks them. dulwich
checks less: it reads trees into a dict, and numbers as Python does.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from dulwich.objects import ObjectID

from sshwarma.common.limits import MAX_PATH_PART_BYTES
from sshwarma.common.units import MIB

_TREE_MODE: Final = 0o040000

MAX_TIMESTAMP: Final = 2**63 - 1
"""Seconds that a time may have on every system."""

MAX_ATTRIBUTES_LINE_BYTES: Final = 2_047
MAX_ATTRIBUTES_BYTES: Final = 100 * MIB
"""What git reads of a `.gitattributes`."""

_ID_BYTES: Final = 20
_MODE: Final = re.compile(rb"[1-7][0-7]{0,5}")
_ID_LINE: Final = re.compile(rb"[0-9a-f]{40}")
_IDENTITY: Final = re.compile(rb"[^<>\n]* <[^<>\n]*> (?P<date>[^ ]*) (?P<zone>.*)", re.DOTALL)
_DATE: Final = re.compile(rb"0|[1-9][0-9]*")
_LONG_LINE: Final = re.compile(rb"[^\n]{%d}" % (MAX_ATTRIBUTES_LINE_BYTES + 1))
_ZONE: Final = re.compile(rb"[+-][0-9]{4}")


class MalformedObjectError(Exception):
    """An object that breaks a rule. Its message is a clause without a subject."""


class RawEntry(NamedTuple):
    """An entry of a tree as it is stored."""

    mode: int
    path: bytes
    sha: ObjectID


def read_tree(data: bytes) -> list[RawEntry]:
    """Return all entries of a tree in their order, repeated names included.

    Raises:
        MalformedObjectError: if they cannot be read.
    """
    entries = []
    start = 0
    while start < len(data):
        mode_end = data.find(b" ", start)
        name_end = data.find(b"\0", mode_end)
        end = name_end + 1 + _ID_BYTES
        if mode_end < 0 or name_end < 0 or end > len(data):
            raise MalformedObjectError("ends in the middle of an entry")
        mode = data[start:mode_end]
        if not _MODE.fullmatch(mode.lstrip(b"0")):
            raise MalformedObjectError("has a mode that is no number")
        sha = ObjectID(data[name_end + 1 : end].hex().encode())
        entries.append(RawEntry(int(mode, 8), data[mode_end + 1 : name_end], sha))
        start = end
    return entries


def check_tree(data: bytes) -> list[RawEntry]:
    """Return the entries of a tree in which names are unique and sorted.

    Raises:
        MalformedObjectError: if a rule is broken. Names of git's own are not looked at.
    """
    entries = read_tree(data)
    names: set[bytes] = set()
    before = b""
    start = 0
    for entry in entries:
        if data[start : start + 1] == b"0":
            raise MalformedObjectError("has a mode that begins with 0")
        start = data.index(b"\0", start) + 1 + _ID_BYTES
        if len(entry.path) > MAX_PATH_PART_BYTES:
            raise MalformedObjectError(
                f"has a name of {len(entry.path)} bytes: at most {MAX_PATH_PART_BYTES} are allowed"
            )
        if entry.path in names:
            raise MalformedObjectError("has a name twice")
        names.add(entry.path)
        key = entry.path + (b"/" if entry.mode == _TREE_MODE else b"\0")
        if key < before:
            raise MalformedObjectError("is not sorted by names")
        before = key
    return entries


def check_commit(data: bytes) -> None:
    """Check the head of a commit, and that no NUL is in it.

    Raises:
        MalformedObjectError: if a rule is broken.
    """
    if b"\0" in data:
        raise MalformedObjectError("has a NUL character")
    head, has_end, _ = data.partition(b"\n\n")
    if not has_end and not data.endswith(b"\n"):
        raise MalformedObjectError("has a head without an end")
    lines = head.removesuffix(b"\n").split(b"\n")
    _check_id(_take(lines, b"tree"), "tree")
    while lines and lines[0].startswith(b"parent "):
        _check_id(_take(lines, b"parent"), "parent")
    _check_identity(_take(lines, b"author"), "author")
    if lines and lines[0].startswith(b"author "):
        raise MalformedObjectError("has several authors")
    _check_identity(_take(lines, b"committer"), "committer")


def find_attributes_problem(data: bytes) -> str:
    """Return why git refuses a `.gitattributes`, without a subject; or ""."""
    if len(data) > MAX_ATTRIBUTES_BYTES:
        return f"has {len(data):,} bytes, and git reads at most {MAX_ATTRIBUTES_BYTES:,}"
    if _LONG_LINE.search(data):
        return f"has a line of more than {MAX_ATTRIBUTES_LINE_BYTES:,} bytes, which git refuses"
    return ""


def _take(lines: list[bytes], name: bytes) -> bytes:
    """Take the first line of a head, which must have that name; return its rest."""
    if not lines or not lines[0].startswith(name + b" "):
        raise MalformedObjectError(f"has no {name.decode()} where it should be")
    return lines.pop(0)[len(name) + 1 :]


def _check_id(value: bytes, name: str) -> None:
    if not _ID_LINE.fullmatch(value):
        raise MalformedObjectError(f"has a {name} that is no id")


def _check_identity(value: bytes, name: str) -> None:
    found = _IDENTITY.fullmatch(value)
    if found is None:
        raise MalformedObjectError(f"names the {name} not as NAME <ADDRESS> DATE ZONE")
    date, zone = found["date"], found["zone"]
    if date.startswith(b"0") and date != b"0":
        raise MalformedObjectError(f"has a date of the {name} that begins with 0")
    if not _DATE.fullmatch(date):
        raise MalformedObjectError(f"has a date of the {name} that is no number of seconds")
    if len(date) > len(str(MAX_TIMESTAMP)) or int(date) > MAX_TIMESTAMP:
        raise MalformedObjectError(f"has a date of the {name} that is too late")
    if not _ZONE.fullmatch(zone):
        raise MalformedObjectError(f"has a time zone of the {name} that is not like +0100")
