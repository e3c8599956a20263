"""Results of the verbs on files, and how they are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from sshwarma.common.limits import MAX_READ_FILE_BYTES
from sshwarma.common.messages import with_limit
from sshwarma.common.shorten import count_rest
from sshwarma.common.units import KIB, MIB
from sshwarma.terminal.highlight import draw_code_lines
from sshwarma.terminal.text import Block, Line, Span, block, line, text_lines
from sshwarma.verbs.shell_command import write_ssh_command
from sshwarma.verbs.views import draw_columns, format_count, view_for_reader
from sshwarma.workspaces.languages import guess_language
from sshwarma.workspaces.manifests import shorten_id
from sshwarma.workspaces.text_edit import number_lines
from sshwarma.world.reader import NextCall, Reader, add_next_call


@dataclass(frozen=True, slots=True)
class FileListItem:
    """A file of a room.

    Attributes:
        kind: `file`, `program`, `link` or `folder`, which is empty.
        changed: what the newest run of a tool did to it: `added`, `changed` or "".
        by: who changed it last, and `at` is when; "" unless that was asked for.
    """

    path: str
    kind: str
    size: int
    sha256: str
    changed: str = ""
    by: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class FileList:
    """Files of a room.

    Attributes:
        version: the id of the version; None before the first file.
        count: how many there are in all; `size` is the sum of their bytes.
        matched: how many match what was asked for; `files` are the first of them.
        removed: what the newest run of a tool removed.
    """

    room: str
    version: str | None
    count: int
    size: int
    matched: int
    files: tuple[FileListItem, ...]
    removed: tuple[str, ...] = ()


@view_for_reader(FileList)
def draw_file_list(result: FileList, reader: Reader) -> Block:
    """Draw the files as a tree of folders, marked with what the newest run changed."""
    if not result.count:
        hint = "From a shell: ssh HOST file put PATH < FILE" if reader.is_person else ""
        return block(
            line(("room", result.room), " has no files."),
            *([line(("dim", hint), hang=2)] if hint else []),
        )
    lines: list[Line] = [
        line(
            ("heading", f"Files of {result.room}: "),
            f"{format_count(result.count, 'file')}, {format_size(result.size)}",
            ("dim", f", version {shorten_id(result.version or '')}"),
        )
    ]
    if reader.is_person:
        lines += draw_columns(_draw_tree(result.files), indent=2)
    else:
        lines += [line(item.path, ("dim", f"  {describe_item(item)}")) for item in result.files]
    if rest := count_rest(result.matched - len(result.files), "file"):
        lines.append(line(("dim", f"  {rest}; name a folder or a pattern")))
    if not result.matched:
        lines.append(line("  Nothing matches."))
    lines += [
        line(("code-removed", "  - "), ("dim", f"{path}  removed by the last run"))
        for path in result.removed
    ]
    if any(item.changed for item in result.files):
        lines.append(line(("dim", "  + added, ~ changed by the last run")))
    return block(*lines)


def describe_item(item: FileListItem) -> str:
    """Return what a list says of a file beside its path, in words."""
    kind = "" if item.kind == "file" else f", {item.kind}"
    changed = f", {item.changed} by the last run" if item.changed else ""
    last = f", {_describe_last(item)}" if item.by else ""
    return f"{format_size(item.size)}{kind}{changed}{last}"


def _describe_last(item: FileListItem) -> str:
    return f"{item.by} {item.at[:16].replace('T', ' ')}" if item.by else ""


def _draw_tree(files: tuple[FileListItem, ...]) -> list[tuple[str | Span, ...]]:
    rows: list[tuple[str | Span, ...]] = []
    open_folders: list[str] = []
    for item in files:
        *folders, name = item.path.split("/")
        common = 0
        while (
            common < min(len(folders), len(open_folders))
            and folders[common] == open_folders[common]
        ):
            common += 1
        for depth in range(common, len(folders)):
            rows.append(("", ("name", f"{'  ' * depth}{folders[depth]}/"), "", "", ""))
        open_folders = folders
        indent = "  " * len(folders)
        if item.kind == "folder":
            rows.append((" ", ("name", f"{indent}{name}/"), ("dim", "empty"), "", ""))
            continue
        mark: Span = {"added": ("ok", "+"), "changed": ("warn", "~")}.get(item.changed, ("", " "))
        note = {"program": "program", "link": "link"}.get(item.kind, "")
        size: Span = ("dim", format_size(item.size))
        last: Span = ("dim", _describe_last(item))
        rows.append((mark, f"{indent}{name}", size, ("dim", note), last))
    return rows


@dataclass(frozen=True, slots=True)
class FileText:
    """A file that is shown.

    Attributes:
        kind: `text`, `binary`, or `large` if it is too large to show, text or not.
        text: its lines; "" unless it is a text.
        offset: number of the first of them, from 1; `lines` is how many they are.
        left: how many lines come after them.
        saved_by: the command that saves a file that is no text to show.
        next: what finds lines in a large file.
    """

    path: str
    version: str
    size: int
    sha256: str
    kind: str
    text: str
    offset: int
    lines: int
    left: int
    saved_by: Annotated[SkipJsonSchema[str], Field(exclude=True)] = ""
    next: Annotated[SkipJsonSchema[NextCall | None], Field(exclude=True)] = None


@view_for_reader(FileText)
def draw_file_text(result: FileText, reader: Reader) -> Block:
    """Draw a file, highlighted; for programs with the numbers of its lines."""
    facts = f"  {format_size(result.size)}, version {shorten_id(result.version)}"
    head = line(("name", result.path), ("dim", facts))
    if result.kind != "text":
        why = f"{with_limit('Too large to show', f'{MAX_READ_FILE_BYTES // MIB} MiB')}."
        said = "A binary file." if result.kind == "binary" else why
        text = add_next_call(said, result.next, reader)
        return block(head, line("  ", text, hang=2), *_draw_get_hint(reader, result.saved_by))
    lines = result.text.split("\n") if result.lines else []
    if not reader.is_person:
        numbered = text_lines(number_lines(lines, 0, len(lines), result.offset)) if lines else []
        return block(head, *numbered, *_draw_rest(result))
    return block(head, *draw_file_lines(result), *_draw_rest(result))


def draw_file_lines(result: FileText, indent: int = 2) -> list[Line]:
    """Draw the lines of a text for people, highlighted if its language is known."""
    language = guess_language(result.path)
    if language and result.lines:
        return [line(" " * indent, *spans) for spans in draw_code_lines(result.text, language)]
    return list(text_lines(result.text, indent=indent))


def _draw_rest(result: FileText) -> list[Line]:
    if not result.left:
        return []
    rest = f"{count_rest(result.left, 'line')}, from offset {result.offset + result.lines}"
    return [line(("dim", rest))]


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A part of a file that was replaced.

    Attributes:
        count: at how many places.
        how: how the part was found, if not exactly: "but for spaces at line ends".
        offset: number of the first line of `text`, which are the changed lines and some around.
    """

    path: str
    version: str
    count: int
    how: str
    offset: int
    text: str


@view_for_reader(FileEdit)
def draw_file_edit(result: FileEdit, reader: Reader) -> Block:
    """Draw the changed lines with their numbers."""
    places = "" if result.count == 1 else f" at {format_count(result.count, 'place')}"
    how = f"; the part was found {result.how}" if result.how else ""
    lines = result.text.split("\n")
    return block(
        line(
            "Changed ",
            ("name", result.path),
            f"{places}{how}.",
            ("dim", f"  version {shorten_id(result.version)}"),
        ),
        *text_lines(number_lines(lines, 0, len(lines), result.offset)),
    )


@dataclass(frozen=True, slots=True)
class FileData:
    """A whole file; `data` is base64, `saved_by` the command that saves it."""

    path: str
    size: int
    sha256: str
    data: str
    saved_by: Annotated[SkipJsonSchema[str], Field(exclude=True)] = ""


@view_for_reader(FileData)
def draw_file_data(result: FileData, reader: Reader) -> Block:
    """Draw the size of a file, and the command that saves it."""
    return _draw_saved(result, reader)


@dataclass(frozen=True, slots=True)
class FileDownload:
    """A file whose bytes the door sends, as it does if `Caller.wants_bytes`.

    `variables` are those that who uses the file must set.
    """

    path: str
    size: int
    sha256: str
    blob: Annotated[SkipJsonSchema[Path], Field(exclude=True)]
    saved_by: Annotated[SkipJsonSchema[str], Field(exclude=True)] = ""
    variables: Annotated[SkipJsonSchema[tuple[str, ...]], Field(exclude=True)] = ()


@view_for_reader(FileDownload)
def draw_file_download(result: FileDownload, reader: Reader) -> Block:
    """Draw the size of a file, where its bytes cannot be written."""
    return _draw_saved(result, reader)


def _draw_saved(result: FileData | FileDownload, reader: Reader) -> Block:
    command = result.saved_by or write_ssh_command("file get", path=result.path)
    return block(
        line(("name", result.path), f": {format_count(result.size, 'byte')}"),
        *_draw_get_hint(reader, command),
    )


def _draw_get_hint(reader: Reader, command: str) -> list[Line]:
    if not reader.is_person:
        return []
    return [line("  ", ("dim", f"{command} > FILE  saves it"), hang=2)]


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of a room's files.

    Attributes:
        version: the id of the version that it made; of the present one if nothing changed.
        paths: what it changed, in order, the first ones.
        count: how many it changed.
        kept_as: where the given content is, if others had changed the same lines of the file.
        is_merged: whether others had changed other lines, and both are in the file.
    """

    text: str
    version: str
    paths: tuple[str, ...]
    count: int
    kept_as: Annotated[SkipJsonSchema[str], Field(exclude=True)] = ""
    is_merged: Annotated[SkipJsonSchema[bool], Field(exclude=True)] = False


@view_for_reader(FileChange)
def draw_file_change(result: FileChange, reader: Reader) -> Block:
    """Draw what was done, and the version that it made."""
    version = f"  version {shorten_id(result.version)}" if result.count else ""
    return block(line(result.text, ("dim", version), hang=2))


def format_size(size: int) -> str:
    """Format a size in its largest unit, with one decimal below ten."""
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}" if size < 10 * unit else f"{size // unit} {name}"
    return f"{size} B"
