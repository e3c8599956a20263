"""Arguments and rights of the verbs on files."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field
from sqlalchemy import Connection

from sshwarma.common.limits import (
    DEFAULT_LISTED_VERSIONS,
    MAX_EXACT_INTEGER,
    MAX_LISTED_VERSIONS,
    MAX_READ_LINES,
)
from sshwarma.services import services_of
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option
from sshwarma.workspaces import manifests
from sshwarma.workspaces.tree import list_folders


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
    """List the newest versions of the room's files, by the ends of their ids."""
    caller = request.caller

    def read(conn: Connection) -> list[Option]:
        active = manifests.read_active_id(conn, caller.room_id)
        found = manifests.list_manifests(conn, active, DEFAULT_LISTED_VERSIONS)
        return [(manifest.short_id, manifest.created_at) for manifest, _ in found]

    return await caller.world.store.read(read)


FilePath: TypeAlias = Annotated[str, Arg(complete=complete_files)]
"""A path in the workspace of the room."""

FileVersion: TypeAlias = Annotated[str, Arg(complete=complete_versions)]
"""A version of the room's files by its id, or the end of it."""

LineNumber: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_EXACT_INTEGER)]
LineCount: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_READ_LINES)]
VersionCount: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_LISTED_VERSIONS)]
