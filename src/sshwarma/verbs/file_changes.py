"""The verbs of `/file` that change files: put, rm, mv, mkdir."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace

from sshwarma.common.limits import MAX_LISTED_FILES
from sshwarma.common.shorten import shorten_name
from sshwarma.verbs.arguments import Flag, TextAfterEquals, Word
from sshwarma.verbs.edit_draft import TAB_SIGN
from sshwarma.verbs.file import file, store_content, workspaces_of
from sshwarma.verbs.file_arguments import FilePath, FileVersion
from sshwarma.verbs.file_views import FileChange, format_size
from sshwarma.verbs.rights import FILES_RIGHT
from sshwarma.verbs.views import format_count
from sshwarma.workspaces.keep_both import MergingEdit, PathChange
from sshwarma.workspaces.line_ends import keep_line_ends
from sshwarma.workspaces.paths import parse_file_path, parse_path
from sshwarma.workspaces.text_diff import decode_file
from sshwarma.workspaces.tree import FILE_MODE, Changes, Entry, Tree, list_folders
from sshwarma.workspaces.tree_edits import make_folder, move_path, remove_paths
from sshwarma.workspaces.workspace import Changed
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, NotFound, empty_error
from sshwarma.world.pending_upload import PendingUpload
from sshwarma.world.reader import next_call


@file.verb(
    "put",
    needs=Right.TALK,
    also_needs=(FILES_RIGHT,),
    tool="write_file",
    namespace="workspace",
    takes_bytes=True,
    rarely_used=("encoded", "base", "tabs", "base_ends"),
    examples=("/file put plan.md = First the walls, then the roof.",),
)
async def put_file(
    caller: Caller,
    path: FilePath,
    content: TextAfterEquals | None = None,
    *,
    encoded: Flag = False,
    base: FileVersion | None = None,
    tabs: Flag = False,
    base_ends: Flag = False,
) -> FileChange:
    """Write a whole file, new or in place of one that is there.

    Makes the folders it is in.

    For people:
        From a shell: `ssh HOST file put PATH < FILE`, any bytes. A text that is typed gets a
        newline at its end.

    Args:
        path: the file.
        content: its text.
        encoded: whether the content is given in base64.
        base: the version that the content was made from: what others have changed since is merged
            by lines, or stays, with this content beside it.
        tabs: whether ␉ stands for a tab in the content, as an edit writes it.
        base_ends: whether lines end as in the base, as on Windows or otherwise: the editor of a
            browser gives each end as a newline.
    """
    name, workspaces = parse_file_path(path), workspaces_of(caller)
    if caller.upload is not None:
        entry = await _store_upload(caller, caller.upload, content, encoded=encoded)
    else:
        data = _content_of(caller, content, encoded=encoded, tabs=tabs)
        if base_ends and base is not None:
            data = await _keep_line_ends(caller, name, base, data)
        entry = await store_content(caller, data)
    version, tree = await workspaces.read_tree(caller.room_id)
    if version is not None and _is_same(tree.get(name), entry):
        return FileChange(f"{name} has this content already.", version, (), 0)
    if base is not None:
        return await _put_over_base(caller, name, entry, base)
    is_new = False

    def edit(tree: Tree) -> Changes:
        nonlocal is_new
        is_new = (present := tree.get(name)) is None
        if present is not None and present.is_folder:
            raise Conflict(f"{shorten_name(name)} is a folder.")
        mode = present.mode if present is not None and present.is_file else FILE_MODE
        return {name: Entry(entry.sha256, mode, entry.size)}

    changed = await workspaces.change(
        caller,
        edit,
        lambda _: f"{'made' if is_new else 'changed'} {shorten_name(name)}",
        source="edit" if _is_typed_in(caller) else "user_upload",
    )
    done = f"{'Made' if is_new else 'Changed'} {name} ({format_size(entry.size)})."
    return report_change(done, changed)


async def _store_upload(
    caller: Caller, upload: PendingUpload, content: str | None, *, encoded: bool
) -> Entry:
    """Store a content that came beside the arguments.

    Raises:
        Invalid: if there is another one in them.
    """
    if content is not None or encoded:
        given = "encoded" if content is None else "content"
        raise Invalid(f"{given}: must not be given with piped input, which is stored as it is.")
    caller.charge_file_volume(upload.size)
    return await workspaces_of(caller).finish_upload(upload)


def _is_typed_in(caller: Caller) -> bool:
    """Return whether a person has typed a content, over ssh or in the console."""
    return caller.door == "ssh" or (caller.door == "web" and caller.upload is None)


async def _keep_line_ends(caller: Caller, name: str, base: str, data: bytes) -> bytes:
    """Return a text with the line ends that its lines have in its base."""
    workspaces = workspaces_of(caller)
    _, old = await workspaces.read_version(caller.room_id, base)
    before = old.get(name)
    if before is None or not before.is_file:
        return data
    text, made = decode_file(await workspaces.read(before)), decode_file(data)
    if text is None or made is None or "\r" not in text:
        return data
    return (await asyncio.to_thread(keep_line_ends, text, made)).encode()


async def _put_over_base(caller: Caller, name: str, entry: Entry, base: str) -> FileChange:
    """Write a file that was made from a version, and keep what others did since."""
    workspaces = workspaces_of(caller)
    _, old = await workspaces.read_version(caller.room_id, base)
    _, present = await workspaces.read_tree(caller.room_id)
    before = old.get(name)
    mode = before.mode if before is not None and before.is_file else FILE_MODE
    made = {name: PathChange(before, Entry(entry.sha256, mode, entry.size))}
    edit = await MergingEdit.prepare(workspaces.blobs, present, made, caller.agent.name)
    verb = "made" if before is None and name not in present else "changed"
    changed = await workspaces.change(
        caller, edit, lambda changed: f"{verb} {', '.join(map(shorten_name, _list_files(changed)))}"
    )
    done = f"{verb.capitalize()} {name} ({format_size(entry.size)})."
    other = edit.result.kept.get(name, "")
    if edit.result.merged:
        done = f"Changed {name}. Others have changed other lines meanwhile, and both are in."
    elif other:
        done = f"Others have changed {name} meanwhile, and that stays. Yours is {other}."
    reported = report_change(done, changed)
    return replace(reported, kept_as=other, is_merged=bool(edit.result.merged))


@file.verb(
    "rm",
    needs=Right.TALK,
    also_needs=(FILES_RIGHT,),
    tool=False,
    examples=("/file rm old.txt", "/file rm build"),
)
async def remove_file(caller: Caller, path: FilePath) -> FileChange:
    """Remove a file, or a folder with all that is in it.

    Earlier versions keep it.

    Args:
        path: the file or folder.
    """
    name = parse_path(path)
    changed = await workspaces_of(caller).change(
        caller, lambda tree: remove_paths(tree, [name]), lambda _: f"removed {shorten_name(name)}"
    )
    removed = [entry for entry in changed.changes.values() if entry is None]
    of = "" if list(changed.changes) == [name] else f", {format_count(len(removed), 'file')}"
    return report_change(f"Removed {name}{of}.", changed)


@file.verb(
    "mv",
    needs=Right.TALK,
    also_needs=(FILES_RIGHT,),
    tool=False,
    examples=("/file mv draft.md plan.md", "/file mv notes docs"),
)
async def move_file(
    caller: Caller, old: FilePath, new: FilePath, *, over: Flag = False
) -> FileChange:
    """Move or rename a file, or a folder with all that is in it.

    Args:
        old: the file or folder.
        new: its new path; a folder that exists takes it in.
        over: whether a file replaces the one at its new path.
    """
    source, target = parse_path(old, "old"), parse_path(new, "new")

    def edit(tree: Tree) -> Changes:
        moves_file = source in tree and not tree[source].is_folder
        if new.endswith("/") and moves_file and target not in list_folders(tree):
            raise NotFound(
                f"There is no folder {shorten_name(target)}.",
                hint=next_call("{} makes it.", "file mkdir", path=target),
            )
        return move_path(tree, source, target, over=over)

    changed = await workspaces_of(caller).change(
        caller,
        edit,
        lambda _: f"moved {shorten_name(source)} to {shorten_name(target)}",
    )
    return report_change(f"Moved {source} to {target}.", changed)


@file.verb(
    "mkdir",
    needs=Right.TALK,
    also_needs=(FILES_RIGHT,),
    tool=False,
    examples=("/file mkdir docs",),
)
async def make_file_folder(caller: Caller, path: Word) -> FileChange:
    """Make an empty folder.

    Args:
        path: the folder.
    """
    name = parse_path(path)
    changed = await workspaces_of(caller).change(
        caller, lambda tree: make_folder(tree, name), lambda _: f"made {shorten_name(name)}/"
    )
    return report_change(f"Made {name}/.", changed)


def _list_files(changed: Changed) -> list[str]:
    """Return the paths at which something was written."""
    return [path for path, entry in changed.changes.items() if entry is not None]


def _is_same(present: Entry | None, new: Entry) -> bool:
    return present is not None and present.is_file and present.sha256 == new.sha256


def _content_of(caller: Caller, text: str | None, *, encoded: bool, tabs: bool) -> bytes:
    """Return the bytes of a text that was typed, or that a program sent.

    Raises:
        Invalid: if it is missing, or should be base64 and is not.
    """
    if text is None:
        raise empty_error("content", hint="From a shell: ssh HOST file put PATH < FILE")
    if encoded:
        try:
            return base64.b64decode(text, validate=True)
        except ValueError as error:
            raise Invalid(f"content: is not base64: {error}.") from error
    text = text.replace(TAB_SIGN, "\t") if tabs else text
    is_typed = caller.arguments is None
    return (f"{text}\n" if is_typed and not text.endswith("\n") else text).encode()


def report_change(text: str, changed: Changed) -> FileChange:
    """Return the result of a change, with the sentence that says what was done."""
    paths = tuple(changed.changes)
    return FileChange(text, changed.manifest.id, paths[:MAX_LISTED_FILES], len(paths))
