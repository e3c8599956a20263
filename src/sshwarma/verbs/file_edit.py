"""The verbs of `/file` that change a text: replace, edit."""

from __future__ import annotations

import asyncio

from sshwarma.common.limits import MAX_EDITED_BYTES
from sshwarma.common.shorten import shorten_name
from sshwarma.verbs.arguments import Flag, Word
from sshwarma.verbs.edit_draft import EditDraft, hide_tabs, make_edit_draft
from sshwarma.verbs.file import (
    file,
    read_files,
    require_unchanged,
    store_content,
    workspaces_of,
)
from sshwarma.verbs.file_arguments import FilePath
from sshwarma.verbs.file_views import FileEdit
from sshwarma.verbs.rights import FILES_RIGHT
from sshwarma.verbs.verb import quote_word
from sshwarma.workspaces.damaged_files import naming_damaged_file
from sshwarma.workspaces.manifests import shorten_id
from sshwarma.workspaces.paths import parse_file_path, parse_path
from sshwarma.workspaces.text_diff import decode_file
from sshwarma.workspaces.text_edit import NEAR_LINES, Replacement, replace_part
from sshwarma.workspaces.tree import Changes, Entry, Tree, list_folders
from sshwarma.workspaces.workspace import find_entry
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, too_long_error


@file.verb(
    "replace",
    needs=Right.TALK,
    also_needs=(FILES_RIGHT,),
    tool="edit_file",
    namespace="workspace",
    examples=("/file replace main.py 'x = 1' 'x = 2'", "/file replace main.py old new --all"),
)
async def replace_in_file(
    caller: Caller,
    path: FilePath,
    old: Word,
    new: Word,
    *,
    all: Flag = False,
) -> FileEdit:
    """Replace a part of a text file.

    The part must be in the file once. If it is not there exactly, its lines are looked for without
    regard to spaces at line ends, then with another indent, with other quotes and dashes, and
    without the line numbers of a listing; the answer says so.

    Args:
        path: the file.
        old: the part to replace, with enough of the lines around it to be the only one.
        new: what stands there instead; empty to remove the part.
        all: replace it at every place.
    """
    name = parse_path(path)
    _, tree = await read_files(caller, None)
    entry = find_entry(tree, name)
    text = await read_text(caller, name, entry)
    made = await asyncio.to_thread(replace_part, text, old, new, everywhere=all)
    stored = await store_content(caller, made.text.encode())

    def edit(present: Tree) -> Changes:
        require_unchanged(present, {name: entry})
        return {name: Entry(stored.sha256, entry.mode, stored.size)}

    changed = await workspaces_of(caller).change(
        caller, edit, lambda _: f"changed {shorten_name(name)}"
    )
    return _describe_edit(name, changed.manifest.id, made)


@file.verb(
    "edit",
    needs=Right.TALK,
    also_needs=(FILES_RIGHT,),
    tool=False,
    ssh_only=True,
    in_console=True,
    examples=("/file edit plan.md",),
)
async def edit_file(caller: Caller, path: FilePath) -> EditDraft:
    """Change a text file in the line editor.

    A tab is ␉ there. A file with other control characters, such as line ends of Windows,
    is not edited so.

    Args:
        path: the file; a new one starts empty.
    """
    name = parse_file_path(path)
    version, tree = await read_files(caller, None)
    draft = await _read_draft(caller, tree, name)
    flags = f" --base {shorten_id(version)}" if version is not None else ""
    draft, signs = hide_tabs(caller, draft)
    line = f"/file put {quote_word(name)}{flags}"
    return make_edit_draft(caller, name, draft, line, signs=signs, language=name)


def _describe_edit(path: str, version: str, made: Replacement) -> FileEdit:
    lines = made.text.removesuffix("\n").split("\n")
    start = max(0, made.line - 1 - NEAR_LINES)
    end = made.line - 1 + made.lines + NEAR_LINES
    return FileEdit(path, version, made.count, made.how, start + 1, "\n".join(lines[start:end]))


async def _read_draft(caller: Caller, tree: Tree, path: str) -> str:
    """Return the text of a file without its last newline; "" of a new one."""
    if path not in tree and path not in list_folders(tree):
        return ""
    return (await read_text(caller, path, find_entry(tree, path))).removesuffix("\n")


async def read_text(caller: Caller, path: str, entry: Entry) -> str:
    """Return the text of a file that is to be changed.

    Raises:
        Invalid: if it is too large to be edited, or is binary.
    """
    if entry.size > MAX_EDITED_BYTES:
        raise too_long_error("the file", entry.size, MAX_EDITED_BYTES, "bytes to be edited")
    with naming_damaged_file(path, (await caller.room()).name):
        text = decode_file(await workspaces_of(caller).read(entry))
    if text is None:
        raise Invalid(f"{shorten_name(path)} is a binary file.")
    return text
