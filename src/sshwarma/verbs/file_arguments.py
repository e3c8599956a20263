"""Arguments and rights of the verbs on files."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import Field
from sqlalchemy import Connection

from sshwarma.common.limits import (
    DEFAULT_LISTED_VERSIONS,
    MAX_EXACT_INTEGER,
    MAX_LISTED_VERSIONS,
    MAX_READ_LINES,
    MAX_WORKSPACE_ENTRIES,
)
from sshwarma.common.shorten import join_with_rest
from sshwarma.services import services_of
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option
from sshwarma.verbs.file_version_views import describe_source, format_version_time
from sshwarma.workspaces import manifests
from sshwarma.workspaces.history import list_manifests
from sshwarma.workspaces.manifests import Manifest
from sshwarma.workspaces.row_versions import find_call_of_version
from sshwarma.workspaces.tree import list_folders

MAX_NOTE_CHARACTERS: Final = 60
"""Characters of the note beside a version that Tab offers: they leave it one row of a terminal."""


async def complete_files(request: CompletionRequest) -> list[Option]:
    """List the files and folders of the room that are next below what is typed."""
    caller = request.caller
    _, tree = await services_of(caller).workspaces.read_tree(caller.room_id)
    above = request.typed.rpartition("/")[0]
    prefix = f"{above}/" if above else ""
    paths = {path: "" for path, entry in tree.items() if not entry.is_folder}
    paths |= {f"{folder}/": "folder" for folder in list_folders(tree)}
    return [
        (path, note)
        for path, note in sorted(paths.items())
        if path.startswith(prefix) and path != prefix and "/" not in path[len(prefix) : -1]
    ]


async def complete_versions(request: CompletionRequest) -> list[Option]:
    """List the newest versions of the room's files, with what made each."""
    caller = request.caller

    def read(conn: Connection) -> list[Option]:
        active = manifests.read_active_id(conn, caller.room_id)
        found = list_manifests(conn, active, DEFAULT_LISTED_VERSIONS)
        return [(manifest.short_id, describe_version(conn, manifest)) for manifest, _ in found]

    def describe_version(conn: Connection, manifest: Manifest) -> str:
        paths = tuple(manifests.read_changed_paths(conn, manifest))
        tool, _ = find_call_of_version(conn, manifest) or ("", 0)
        words = (
            format_version_time(manifest.created_at),
            caller.world.agents.name_of(manifest.author_id),
            describe_source(manifest.source, manifest.source_ref, tool),
            join_with_rest(paths, 1) or "no change",
        )
        note = " ".join(words)
        return note if len(note) <= MAX_NOTE_CHARACTERS else f"{note[: MAX_NOTE_CHARACTERS - 1]}…"

    return await caller.world.store.read(read)


FilePath: TypeAlias = Annotated[str, Arg(complete=complete_files)]
"""A path in the workspace of the room."""

FileVersion: TypeAlias = Annotated[str, Arg(complete=complete_versions)]
"""A version of the room's files by its id, or the end of it."""

LineNumber: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_EXACT_INTEGER)]
LineCount: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_READ_LINES)]
FileCount: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_WORKSPACE_ENTRIES)]
VersionCount: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_LISTED_VERSIONS)]
