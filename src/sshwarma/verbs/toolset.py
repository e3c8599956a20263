"""The verbs of `/toolset`: bundles of tools, installed for the whole server."""

from __future__ import annotations

import asyncio
import base64
import re
from typing import Annotated, Final, TypeAlias

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_NAMED_FILES
from sshwarma.common.shorten import join_with_rest
from sshwarma.services import services_of
from sshwarma.toolsets import records
from sshwarma.toolsets.archive import MANIFEST_PATH, check_archive_size
from sshwarma.toolsets.export import write_archive
from sshwarma.toolsets.manifest_reading import check_manifest
from sshwarma.toolsets.servers import Allowed
from sshwarma.toolsets.stored_keys import (
    INSTALLED_BY_KEY,
    INSTALLED_OVER_KEY,
    SOURCE_REF_KEY,
    SOURCE_TYPE_KEY,
)
from sshwarma.verbs.arguments import Arg, CompletionRequest, Flag, Option, TextAfterEquals
from sshwarma.verbs.file_views import FileDownload
from sshwarma.verbs.registry import group
from sshwarma.verbs.shell_command import write_ssh_command
from sshwarma.verbs.toolset_exported import ToolsetData, ToolsetVariable, describe_variables
from sshwarma.verbs.toolset_installed import ToolsetInstalled, describe_import
from sshwarma.verbs.toolset_rooms import join_rooms, list_known_rooms
from sshwarma.verbs.toolset_views import (
    DOOR_NAMES,
    ToolsetDetails,
    ToolsetFile,
    ToolsetItem,
    ToolsetList,
    ToolsetServer,
    ToolsetTool,
)
from sshwarma.verbs.views import Confirmation, format_count
from sshwarma.world import overrides, things
from sshwarma.world.access import Right
from sshwarma.world.builtin_containers import BUNDLE_KEY
from sshwarma.world.caller import Caller
from sshwarma.world.equipment import find_rooms_with
from sshwarma.world.errors import Forbidden, Invalid, empty_error
from sshwarma.world.reader import TextByReader, next_call
from sshwarma.world.things import Thing

toolset = group(
    "toolset",
    section="Tools",
    default="list",
    doc="""Toolsets: tools in Python, installed from a ZIP file.

    A toolset becomes a namespace of its id, whose tools are equipped as others. They run in a
    sandbox on the files of the room.
    """,
)


async def complete_toolsets(request: CompletionRequest) -> list[Option]:
    """List the installed toolsets."""
    found = await request.caller.world.store.read(records.list_toolsets)
    return [(one.label, str(one.metadata.get("display_name", ""))) for one in found]


_FILE_NAME: Final = re.compile(r"[\w./~+-]{1,200}\.zip", re.ASCII)

ToolsetName: TypeAlias = Annotated[str, Arg(complete=complete_toolsets)]


@toolset.verb(
    "list",
    needs=Right.ENTER,
    tool="list_toolsets",
    namespace="toolsets",
    examples=("/toolset list",),
)
async def list_toolsets(caller: Caller) -> ToolsetList:
    """List the installed toolsets."""

    def read(conn: Connection) -> tuple[ToolsetItem, ...]:
        return tuple(_describe(caller, conn, one) for one in records.list_toolsets(conn))

    return ToolsetList(await caller.world.store.read(read), _describe_obstacle(caller))


@toolset.verb(
    "show",
    needs=Right.ENTER,
    tool="get_toolset",
    namespace="toolsets",
    examples=("/toolset show app-builder",),
)
async def show_toolset(caller: Caller, name: ToolsetName) -> ToolsetDetails:
    """Show a toolset with its tools and files.

    Args:
        name: its id.
    """

    def read(conn: Connection) -> ToolsetDetails:
        space = records.find_toolset(conn, name)
        tools = []
        for tool in things.read_children(conn, space.id, "tool"):
            decided = overrides.read_tool_override(conn, tool)
            shown = overrides.apply_override(tool, decided)
            tools.append(
                ToolsetTool(
                    tool.label,
                    decided.name or str(tool.metadata.get("display_name", tool.name)),
                    shown.description or "",
                    shown.enabled,
                    bool(shown.metadata.get(overrides.CONFIRM_KEY)),
                    str(tool.metadata.get("entrypoint", "")),
                    decided.renderer,
                    decided.renderer_config if decided.renderer else None,
                )
            )
        files = tuple(
            ToolsetFile(file.path, file.kind, file.sha256, file.size)
            for file in records.read_files(conn, space.label)
        )
        hub = services_of(caller).hub
        servers = tuple(
            ToolsetServer(
                server.name, str(server.metadata.get("server_type")),
                (status := hub.status_of(server)).state, status.reason,
            )
            for server in things.read_children(conn, space.id, "mcp")
        )  # fmt: skip
        required = tuple(space.metadata[BUNDLE_KEY].get("requirements", ()))
        obstacle = _describe_obstacle(caller)
        return ToolsetDetails(
            _describe(caller, conn, space), tuple(tools), files, servers, required, obstacle
        )

    return await caller.world.store.read(read)


@toolset.verb(
    "import",
    needs=Right.ADMIN,
    tool="import_toolset",
    namespace="toolsets",
    private_with=("archive",),
    takes_bytes=True,
    examples=("/toolset import --encoded = UEsDBBQAAAAI",),
)
async def import_toolset(
    caller: Caller,
    archive: TextAfterEquals | None = None,
    *,
    encoded: Flag = False,
    network: Flag = False,
    packages: Flag = False,
) -> ToolsetInstalled:
    """Install a toolset from a ZIP file, or upgrade the one that has its id.

    The file has `toolset.yaml` at its top or in its only folder. Its modules are imported once, in
    a sandbox, to read the tools. Decisions about the tools stay at an upgrade. MCP servers that it
    declares are connected at once; their programs run in sandboxes.

    For people:
        From a shell: `ssh HOST toolset import < FILE.zip`

    Args:
        archive: the file, in base64.
        encoded: says that the file is given in base64.
        network: let programs of its MCP servers use the network of the server's machine; owners
            only.
        packages: install the packages that it requires, which its tools can import; owners only.
    """
    allowed = Allowed(network, packages)
    if caller.call_stack is not None and allowed != Allowed():
        raise Forbidden("Only a person can allow a toolset the network or packages, not a tool.")
    data = await _read_archive(caller, archive, encoded=encoded)
    done = await services_of(caller).toolsets.install(caller, data, allowed)
    return await describe_import(caller, done)


@toolset.verb(
    "export",
    needs=Right.ADMIN,
    tool="export_toolset",
    namespace="toolsets",
    examples=("/toolset export app-builder",),
)
async def export_toolset(caller: Caller, name: ToolsetName) -> FileDownload | ToolsetData:
    """Write a toolset as a ZIP file, with decisions on its tools, no secrets.

    What may be a secret of its MCP servers is a variable in it. Who imports it must set all its
    variables: `variables` in the result.

    For people:
        From a shell: `ssh HOST toolset export NAME > FILE.zip`

    Args:
        name: its id.
    """
    services = services_of(caller)

    def read(conn: Connection) -> tuple[Thing, list[records.StoredFile], list[overrides.Override]]:
        space = records.find_toolset(conn, name)
        records.check_no_plugin(space)
        decided = records.read_decisions(conn, space)
        return space, records.read_files(conn, space.label), decided

    space, files, decided = await caller.world.store.read(read)
    blobs = services.workspaces.blobs
    contents = await asyncio.to_thread(
        lambda: {one.path: blobs.read(one.sha256) for one in files if one.path != MANIFEST_PATH}
    )
    manifest = check_manifest(records.merge_overrides(space, decided))
    export = await asyncio.to_thread(write_archive, manifest, contents)
    entry = await services.workspaces.store(export.data)
    file_name = f"{space.label}-{manifest.version}.zip"
    saved_by = write_ssh_command("toolset export", name=space.label)
    variables = tuple(ToolsetVariable(*one) for one in export.variables.items())
    if caller.wants_bytes:
        path = await asyncio.to_thread(blobs.check, entry.sha256)
        if variables and caller.on_progress is not None:
            caller.on_progress(describe_variables(variables))
        names = tuple(one.name for one in variables)
        return FileDownload(file_name, entry.size, entry.sha256, path, saved_by, names)
    encoded = base64.b64encode(export.data).decode()
    return ToolsetData(file_name, entry.size, entry.sha256, encoded, saved_by, variables)


@toolset.verb(
    "enable",
    needs=Right.ADMIN,
    tool="enable_toolset",
    namespace="toolsets",
    examples=("/toolset enable app-builder",),
)
async def enable_toolset(caller: Caller, name: ToolsetName) -> Confirmation:
    """Enable a toolset that was disabled; each tool is as it was.

    Args:
        name: its id.
    """
    return await _switch(caller, name, is_enabled=True)


@toolset.verb(
    "disable",
    needs=Right.ADMIN,
    tool="disable_toolset",
    namespace="toolsets",
    examples=("/toolset disable app-builder",),
)
async def disable_toolset(caller: Caller, name: ToolsetName) -> Confirmation:
    """Disable a toolset: nobody sees its tools.

    Args:
        name: its id.
    """
    return await _switch(caller, name, is_enabled=False)


@toolset.verb(
    "uninstall",
    needs=Right.ADMIN,
    tool="uninstall_toolset",
    namespace="toolsets",
    examples=("/toolset uninstall app-builder --yes",),
)
async def uninstall_toolset(
    caller: Caller, name: ToolsetName, *, yes: Flag = False
) -> Confirmation:
    """Uninstall a toolset with its tools. Calls in logs stay.

    Args:
        name: its id.
        yes: do it; without this, only what would be done is said.
    """
    space = await caller.world.store.read(lambda conn: records.find_toolset(conn, name))
    records.check_no_plugin(space)
    read = caller.world.store.read
    tools = await read(lambda conn: things.read_children(conn, space.id, "tool"))
    named = join_with_rest([tool.name for tool in tools], MAX_NAMED_FILES)
    servers = await read(lambda conn: things.read_children(conn, space.id, "mcp"))
    ids = [space.id, *(tool.id for tool in tools)]
    room_ids = await read(lambda conn: find_rooms_with(conn, ids))
    rooms = join_rooms(await list_known_rooms(caller, room_ids), len(room_ids))
    if not yes:
        also = ", ".join(server.name for server in servers)
        raise Invalid(
            f"This uninstalls {space.label} with {format_count(len(tools), 'tool')}"
            f"{f': {named}' if named else ''}"
            f"{f', and its MCP servers: {also}' if also else ''}."
            f"{f' It is equipped in {rooms}.' if rooms else ''}",
            hint=next_call("{} does it.", "toolset uninstall", name=space.label, yes=True),
        )
    ended = await services_of(caller).toolsets.uninstall(caller, space)
    was = f" It was equipped in {rooms}." if rooms else ""
    if ended:
        was += f" These calls ran, and were ended: {join_with_rest(ended, MAX_NAMED_FILES)}."
    return Confirmation(f"Uninstalled {space.label} with {format_count(len(tools), 'tool')}.{was}")


async def _read_archive(caller: Caller, archive: str | None, *, encoded: bool) -> bytes:
    """Return the bytes of an archive that comes with a request.

    Raises:
        Invalid: if it is missing, too large or not in base64.
    """
    if caller.upload is not None:
        if archive is not None or encoded:
            raise Invalid("archive: must not be given with piped input.")
        check_archive_size(caller.upload.size)
        # It is not stored: a refused one would stay until contents without a use are deleted.
        return await asyncio.to_thread(caller.upload.read)
    if archive is None:
        raise empty_error("archive", hint=_hint_at_pipe("FILE.zip"))
    if not encoded:
        named = archive if _FILE_NAME.fullmatch(archive) else "FILE.zip"
        raise Invalid("archive: must come by a pipe, or in base64.", hint=_hint_at_pipe(named))
    try:
        return base64.b64decode(archive, validate=True)
    except ValueError as error:
        raise Invalid(f"archive: is not valid base64: {error}.") from error


def _hint_at_pipe(file_name: str) -> TextByReader:
    return TextByReader(
        f"From a shell: ssh HOST toolset import < {file_name}",
        "Give the file in base64, and encoded: true.",
    )


async def _switch(caller: Caller, name: str, *, is_enabled: bool) -> Confirmation:
    space = await caller.world.store.read(lambda conn: records.find_toolset(conn, name))
    done = "enabled" if is_enabled else "disabled"
    if space.enabled == is_enabled:
        return Confirmation(f"{space.label} is {done} already.")
    await services_of(caller).toolsets.switch(caller, space, is_enabled=is_enabled)
    return Confirmation(f"{done.capitalize()} {space.label}.")


def _describe(caller: Caller, conn: Connection, space: Thing) -> ToolsetItem:
    meta = space.metadata
    by = meta.get(INSTALLED_BY_KEY)
    return ToolsetItem(
        space.label,
        str(meta.get("display_name", space.name)),
        str(meta.get("version", "")),
        space.description or "",
        space.enabled,
        str(meta.get("installed_at", "")),
        "" if by is None else caller.world.agents.name_of(str(by)),
        DOOR_NAMES.get(str(meta.get(INSTALLED_OVER_KEY)), ""),
        f"{meta.get(SOURCE_TYPE_KEY, '')}, {meta.get(SOURCE_REF_KEY, '')}",
        len(things.read_children(conn, space.id, "tool")),
    )


def _describe_obstacle(caller: Caller) -> str:
    obstacle = services_of(caller).runs.sandbox.obstacle
    if obstacle is None:
        return ""
    return f"Their tools cannot run: {obstacle.reason}. {obstacle.hint}"
