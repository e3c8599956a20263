"""The verb `/file patch`: several files changed by one text, all or nothing."""

from __future__ import annotations

import asyncio

from sshwarma.common.limits import MAX_NAMED_FILES
from sshwarma.common.shorten import join_with_rest, shorten_name
from sshwarma.verbs.arguments import TextAfterEquals
from sshwarma.verbs.file import file, read_files, require_unchanged, store_content, workspaces_of
from sshwarma.verbs.file_changes import report_change
from sshwarma.verbs.file_edit import read_text
from sshwarma.verbs.file_views import FileChange
from sshwarma.verbs.rights import FILES_RIGHT
from sshwarma.workspaces.patch import Section, apply_chunks, parse_patch
from sshwarma.workspaces.tree import FILE_MODE, Changes, Entry, Tree, list_folders
from sshwarma.workspaces.workspace import find_entry
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict


@file.verb(
    "patch",
    needs=Right.TALK,
    also_needs=(FILES_RIGHT,),
    tool="apply_patch",
    namespace="workspace",
    examples=("/file patch = *** Begin Patch",),
)
async def patch_files(caller: Caller, patch: TextAfterEquals) -> FileChange:
    """Change several files by one patch: all of it, or nothing.

    A patch stands between the lines `*** Begin Patch` and `*** End Patch`. A section begins with
    `*** Add File: PATH`, whose lines begin with +, with `*** Delete File: PATH`, or with
    `*** Update File: PATH`. An update has chunks: after a line @@, which may name a line before the
    place, lines that begin with a space, - or +. `*** Move to: PATH` after an update gives the file
    another path.

    For people:
        From a shell: `ssh HOST file patch < FILE`

    Args:
        patch: the patch.
    """
    sections = await asyncio.to_thread(parse_patch, patch)
    _, tree = await read_files(caller, None)
    changes: dict[str, Entry | None] = {}
    for section in sections:
        changes |= await _make_changes(caller, tree, section)
    touched = {path: tree.get(path) for path in changes}

    def edit(present: Tree) -> Changes:
        require_unchanged(present, touched)
        return changes

    paths = [section.path for section in sections]
    named = join_with_rest([shorten_name(path) for path in paths], MAX_NAMED_FILES)
    changed = await workspaces_of(caller).change(caller, edit, lambda _: f"patched {named}")
    done = {"Add": "added", "Delete": "deleted", "Update": "changed"}
    parts = [
        f"{done[section.action]} {section.path}"
        + (f", now {section.moved_to}" if section.moved_to else "")
        for section in sections
    ]
    text = "; ".join(parts)
    return report_change(f"{text[0].upper()}{text[1:]}.", changed)


async def _make_changes(caller: Caller, tree: Tree, section: Section) -> dict[str, Entry | None]:
    """Store what a section makes; return the changes of the tree.

    Raises:
        Conflict: if a new file is there already.
        WorldError: if a file is not there, or a chunk does not fit.
    """
    target = section.moved_to or section.path
    is_new = section.action == "Add" or bool(section.moved_to)
    if is_new and (target in tree or target in list_folders(tree)):
        raise Conflict(f"{shorten_name(target)} already exists.")
    if section.action == "Delete":
        find_entry(tree, section.path)
        return {section.path: None}
    if section.action == "Add":
        text, mode = "".join(f"{line}\n" for line in section.lines), FILE_MODE
    else:
        entry = find_entry(tree, section.path)
        old = await read_text(caller, section.path, entry)
        text, mode = await asyncio.to_thread(apply_chunks, old, section), entry.mode
    stored = await store_content(caller, text.encode())
    made: dict[str, Entry | None] = {target: Entry(stored.sha256, mode, stored.size)}
    if section.moved_to:
        made[section.path] = None
    return made
