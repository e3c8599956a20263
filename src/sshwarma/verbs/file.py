"""The verbs `files` and `/file`: the workspace of a room."""

from __future__ import annotations

import asyncio
import base64
from itertools import islice

from sshwarma.common.finish import run_in_thread
from sshwarma.common.limits import (
    DEFAULT_READ_LINES,
    MAX_JSON_FILE_BYTES,
    MAX_LISTED_FILES,
    MAX_READ_BYTES,
    MAX_READ_FILE_BYTES,
    MAX_READ_LINE_CHARACTERS,
)
from sshwarma.services import services_of
from sshwarma.verbs.arguments import Flag
from sshwarma.verbs.file_arguments import (
    FileCount,
    FilePath,
    FileVersion,
    LineCount,
    LineNumber,
)
from sshwarma.verbs.file_views import (
    FileData,
    FileDownload,
    FileList,
    FileListItem,
    FileText,
)
from sshwarma.verbs.registry import group, verb
from sshwarma.verbs.shell_command import write_ssh_command
from sshwarma.verbs.views import format_count
from sshwarma.workspaces.damaged_files import naming_damaged_file
from sshwarma.workspaces.paths import parse_path
from sshwarma.workspaces.text_diff import decode_file
from sshwarma.workspaces.text_lines import count_lines, find_line, iterate_lines
from sshwarma.workspaces.tree import (
    Changes,
    Entry,
    Tree,
    find_below,
)
from sshwarma.workspaces.workspace import (
    Workspaces,
    check_file_size,
    find_entry,
)
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, too_long_error
from sshwarma.world.glob_patterns import compile_glob, is_glob
from sshwarma.world.reader import next_call

file = group(
    "file",
    section="Building",
    doc="""Read and change the files of this room.

    A room has a workspace: files that its people, models and tools share. Every change makes a
    version, which can be listed, compared and brought back. A room has at most
    {MAX_WORKSPACE_ENTRIES} files with {MAX_WORKSPACE_BYTES}.
    """,
)


@verb(
    "files",
    section="Building",
    needs=Right.ENTER,
    tool="list_files",
    namespace="workspace",
    rarely_used=("at", "n", "who"),
    examples=("/files", "/files src", "/files *.py", "/files --at 1f03ac", "/files --who"),
)
async def list_files(
    caller: Caller,
    path: FilePath | None = None,
    *,
    at: FileVersion | None = None,
    n: FileCount = MAX_LISTED_FILES,
    who: Flag = False,
) -> FileList:
    """List the files of this room.

    Marks what the last run of a tool added or changed.

    Args:
        path: a folder, a file, or a pattern such as *.py (default: all files).
        at: the version to list (default: the present one).
        n: number of files (default {MAX_LISTED_FILES}).
        who: whether to say who changed each present file last, and when.
    """
    version, tree = await read_files(caller, at)
    paths = sorted(tree) if path is None else await match_paths(caller, tree, path)
    workspaces = workspaces_of(caller)
    run = await workspaces.read_last_run(version)
    last = await workspaces.read_last_changes(caller.room_id, tree) if who and at is None else {}
    agents = caller.world.agents

    def make_item(name: str) -> FileListItem:
        changed_at, author_id = last.get(name, ("", None))
        by = agents.name_of(author_id) if changed_at else ""
        return _list_item(name, tree[name], run.get(name, ""), by, changed_at)

    return FileList(
        (await caller.room()).name,
        version,
        sum(not entry.is_folder for entry in tree.values()),
        sum(entry.size for entry in tree.values()),
        len(paths),
        tuple(map(make_item, paths[:n])),
        tuple(name for name, done in run.items() if done == "removed" and path is None),
    )


@file.verb(
    "show",
    needs=Right.ENTER,
    tool="read_file",
    namespace="workspace",
    rarely_used=("at",),
    examples=("/file show src/main.py", "/file show plan.md --at 1f03ac --offset 40"),
)
async def show_file(
    caller: Caller,
    path: FilePath,
    *,
    offset: LineNumber = 1,
    limit: LineCount = DEFAULT_READ_LINES,
    at: FileVersion | None = None,
) -> FileText:
    """Show a text file.

    For models:
        Read a text file of this room, with line numbers.

    Args:
        path: the file.
        offset: number of the first line.
        limit: number of lines (default {DEFAULT_READ_LINES}).
        at: the version to read (default: the present one).
    """
    version, tree = await read_files(caller, at)
    name = parse_path(path)
    entry = find_entry(tree, name)
    text, workspaces = None, workspaces_of(caller)
    with naming_damaged_file(name, (await caller.room()).name, version):
        if entry.size <= MAX_READ_FILE_BYTES:
            text = await asyncio.to_thread(decode_file, await workspaces.read(entry))
        else:
            await asyncio.to_thread(workspaces.blobs.check, entry.sha256)
    if text is None:
        is_large = entry.size > MAX_READ_FILE_BYTES
        return FileText(
            name,
            version or "",
            entry.size,
            entry.sha256,
            "large" if is_large else "binary",
            "",
            offset=1,
            lines=0,
            left=0,
            saved_by=write_ssh_command("file get", path=name, at=at),
            next=next_call("{} finds lines in it.", "file search")
            if is_large and at is None
            else None,
        )
    return await asyncio.to_thread(cut_lines, name, version or "", entry, text, offset, limit)


@file.verb(
    "get",
    needs=Right.ENTER,
    tool=False,
    examples=("/file get build/report.pdf", "/file get plan.md --at 1f03ac"),
)
async def get_file(
    caller: Caller, path: FilePath, *, at: FileVersion | None = None
) -> FileDownload | FileData:
    """Get a whole file, byte for byte.

    In JSON it is base64, at most {MAX_JSON_FILE_BYTES}.

    For people:
        `ssh HOST file get PATH > FILE` writes the bytes themselves.

    Args:
        path: the file.
        at: the version to read (default: the present one).
    """
    version, tree = await read_files(caller, at)
    name = parse_path(path)
    entry = find_entry(tree, name)
    workspaces = workspaces_of(caller)
    naming_damage = naming_damaged_file(name, (await caller.room()).name, version)
    if caller.wants_bytes:
        with naming_damage:
            blob = await asyncio.to_thread(workspaces.blobs.check, entry.sha256)
        return FileDownload(name, entry.size, entry.sha256, blob)
    if entry.size > MAX_JSON_FILE_BYTES:
        raise too_long_error("the file", entry.size, MAX_JSON_FILE_BYTES, "bytes as JSON")
    with naming_damage:
        data = await workspaces.read(entry)
    return FileData(name, entry.size, entry.sha256, base64.b64encode(data).decode())


def workspaces_of(caller: Caller) -> Workspaces:
    """Return the files of all rooms."""
    return services_of(caller).workspaces


async def store_content(caller: Caller, data: bytes) -> Entry:
    """Store the content of a file; count it for the caller.

    Raises:
        Invalid: if it is too large for a file.
        RateLimited: if the caller has stored too much in the last hour.
    """
    check_file_size(len(data))
    caller.charge_file_volume(len(data))
    return await workspaces_of(caller).store(data)


def require_unchanged(present: Tree, entries: Changes) -> None:
    """Raise if somebody changed a file since it was read.

    Raises:
        Conflict: naming the first.
    """
    for path, entry in entries.items():
        if present.get(path) != entry:
            raise Conflict(f"{path} was changed in the meantime.", hint="Read it again.")


async def read_files(caller: Caller, at: str | None) -> tuple[str | None, Tree]:
    """Return the id and entries of a version of the files, or the present one.

    Raises:
        NotFound: if no version matches, or several do.
    """
    workspaces = workspaces_of(caller)
    if at is None:
        return await workspaces.read_tree(caller.room_id)
    manifest, tree = await workspaces.read_version(caller.room_id, at)
    return manifest.id, tree


async def match_paths(caller: Caller, tree: Tree, typed: str) -> list[str]:
    """Return the paths that a file, a folder or a pattern means, in order.

    A pattern without `/` is one of names, wherever they are.

    Raises:
        Invalid: if a pattern is too long.
        NotFound: if a file or folder does not exist.
    """
    if is_glob(typed, has_sets=True):
        matches, whole = compile_glob(typed, has_sets=True, argument="path"), "/" in typed

        def match_all() -> list[str]:
            return sorted(
                path for path in tree if matches(path if whole else path.rpartition("/")[2])
            )

        async with workspaces_of(caller).take_long_read(caller):  # 10,000 long paths take seconds
            return await run_in_thread(lambda _: match_all())
    name = parse_path(typed)
    if name in tree:
        return [name]
    below = find_below(tree, name)
    if not below:
        find_entry(tree, name)
    return below


def _list_item(path: str, entry: Entry, changed: str, by: str, at: str) -> FileListItem:
    return FileListItem(path, _kind(entry), entry.size, entry.sha256, changed, by, at)


def _kind(entry: Entry) -> str:
    if entry.is_folder:
        return "folder"
    if entry.is_link:
        return "link"
    return "program" if entry.is_program else "file"


def cut_lines(
    path: str, version: str, entry: Entry, text: str, offset: int, limit: int
) -> FileText:
    """Return lines of a text, up to the bytes that one reading may have."""
    total = count_lines(text)
    if offset > max(total, 1):
        raise Invalid(f"offset: the file has {format_count(total, 'line')}.")
    shown: list[str] = []
    room = MAX_READ_BYTES
    for start, end in islice(iterate_lines(text, find_line(text, offset)), limit):
        cut = text[start : min(end, start + MAX_READ_LINE_CHARACTERS)]
        left_out = end - start - len(cut)
        shown.append(f"{cut}… ({left_out} more characters)" if left_out else cut)
        room -= len(shown[-1].encode()) + 1
        if room < 0:
            break
    left = total - (offset - 1) - len(shown)
    return FileText(
        path,
        version,
        entry.size,
        entry.sha256,
        "text",
        "\n".join(shown),
        offset,
        len(shown),
        left,
    )
