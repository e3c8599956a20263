"""Results of the verbs on versions of files, and how they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sshwarma.common.limits import MAX_LISTED_FILES
from sshwarma.common.shorten import count_rest, join_with_rest
from sshwarma.terminal.highlight import draw_code_lines
from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.verbs.views import draw_columns, draw_hint, format_count, view_for_reader
from sshwarma.workspaces.change_kinds import ChangeKind
from sshwarma.workspaces.manifests import shorten_id
from sshwarma.world.reader import Reader

_MARKS: Final = {"added": "+", "changed": "~", "removed": "-"}


@dataclass(frozen=True, slots=True)
class FileVersionItem:
    """A version of a room's files.

    Attributes:
        source: what made it: `user_upload`, `edit`, `tool_run`, `branch` or `git_push`.
        source_ref: the call, turn or commit that made it; of an edit the version that it restored.
        paths: what it changed, the first ones; `changed` is how many.
        changes: what it did at each of `paths`.
        tool: whose call made it; "" if no call did.
        row: number of the row of that call; None if no call did.
        removed: whether it removed the path that was asked for.
    """

    id: str
    at: str
    by: str
    source: str
    source_ref: str | None
    changed: int
    paths: tuple[str, ...]
    changes: Mapping[str, ChangeKind]
    files: int
    size: int
    tool: str = ""
    row: int | None = None
    removed: bool = False


@dataclass(frozen=True, slots=True)
class FileHistory:
    """The versions of a room's files, newest first, or those of one path."""

    room: str
    path: str
    versions: tuple[FileVersionItem, ...]


@view_for_reader(FileHistory)
def draw_file_history(result: FileHistory, reader: Reader) -> Block:
    """Draw the versions with who made them and what changed."""
    if not result.versions:
        return block(line(("room", result.room), " has no files yet."))
    of = f" of {result.path}" if result.path else ""
    lines: list[Line] = [line(("heading", f"Versions{of} in {result.room}:"))]
    lines += draw_columns(
        (
            (
                ("mark", shorten_id(item.id)),
                ("time", format_version_time(item.at)),
                ("name", item.by),
                _describe_source_of(item, reader),
                ("warn", "removed") if item.removed else _describe_paths(item),
            )
            for item in result.versions
        ),
        cut_last=True,
    )
    if any(item.paths and not item.removed for item in result.versions):
        lines.append(line(("dim", "  + added, ~ changed, - removed")))
    if with_files := [item for item in result.versions if item.files]:
        oldest = shorten_id(with_files[-1].id)
        lines += draw_hint(reader, "{} brings a version back.", "file restore", version=oldest)
    return block(*lines)


@dataclass(frozen=True, slots=True)
class FileVersionContents:
    """A version with its files.

    Attributes:
        parent_id: the version that it was made from; None for the first.
        files: SHA-256 of the content of each file, by path.
    """

    room: str
    version: FileVersionItem
    parent_id: str | None
    files: Mapping[str, str]


@view_for_reader(FileVersionContents)
def draw_file_version(result: FileVersionContents, reader: Reader) -> Block:
    """Draw what made a version, and its files with the start of their hashes."""
    item = result.version
    reference = f" ({item.source_ref})" if item.source_ref else ""
    source = _describe_source_of(item, reader)
    lines: list[Line] = [
        line(("heading", f"Version {shorten_id(item.id)}"), f" of the files in {result.room}"),
        line(f"  {source} by ", ("name", item.by), f"{reference}, {item.at}"),
        line(
            f"  from {shorten_id(result.parent_id)}" if result.parent_id else "  the first version"
        ),
        line(f"  {'changes: ' if item.paths else ''}{_describe_paths(item)}"),
    ]
    shown = list(result.files.items())[:MAX_LISTED_FILES]
    lines += draw_columns((("dim", sha256[:12]), path) for path, sha256 in shown)
    if rest := count_rest(len(result.files) - len(shown), "file"):
        lines.append(line(f"  {rest}"))
    return block(*lines)


def format_version_time(at: str) -> str:
    """Format when a version was made, up to the minute: `2026-11-26 01:58`."""
    return at[:16].replace("T", " ")


def describe_source(source: str, source_ref: str | None, tool: str = "") -> str:
    """Return what made a version: `user upload`, `restore of 1f03ac`, `kit:paint`."""
    if source == "edit" and source_ref:
        return f"restore of {shorten_id(source_ref)}"
    if source == "tool_run":
        return tool or ("tool run" if source_ref else "shell")  # only that verb has no call
    return source.replace("_", " ")


def _describe_source_of(item: FileVersionItem, reader: Reader) -> str:
    text = describe_source(item.source, item.source_ref, reader.name_tool(item.tool))
    return text if item.row is None else f"{text}, row {item.row}"


def _describe_paths(item: FileVersionItem) -> str:
    if not item.paths:
        return "no change" if item.files else "no files"
    named = [f"{_MARKS[item.changes[path]]} {path}" for path in item.paths]
    return join_with_rest(named, len(named), total=item.changed)


@dataclass(frozen=True, slots=True)
class FileDiffItem:
    """The difference at one path; `note` says why a `diff` is not shown."""

    path: str
    change: ChangeKind
    diff: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class FileDiff:
    """The differences of two versions; `files` are the first of `count` paths."""

    old: str
    new: str
    count: int
    files: tuple[FileDiffItem, ...]


@view_for_reader(FileDiff)
def draw_file_diff(result: FileDiff, reader: Reader) -> Block:
    """Draw the differences as unified diffs, in colour."""
    old, new = shorten_id(result.old), shorten_id(result.new)
    names = f"{old or 'nothing'} → {new or 'nothing'}"
    changed = f"{format_count(result.count, 'file')} changed"
    is_of_one_version = old == new != ""
    if is_of_one_version:  # two files are compared, and nothing has changed
        names, changed = f"both of version {new}", "Two files differ"
    if not result.count:
        return block(line(f"Nothing differs ({names})."))
    lines: list[Line] = [line(("heading", changed), ("dim", f" ({names})"))]
    for item in result.files:
        change = "" if is_of_one_version else f"  {item.change}"
        lines.append(line(("name", item.path), ("dim", change)))
        if item.note:
            lines.append(line("  ", ("dim", item.note)))
        if item.diff:
            lines += [line("  ", *spans) for spans in draw_code_lines(item.diff, "diff")]
    if rest := count_rest(result.count - len(result.files), "file"):
        lines.append(line(("dim", rest)))
    return block(*lines)
