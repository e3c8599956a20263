"""The verbs build and export folder: rooms from and as folders of plain files."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection

from sshwarma.building import archive
from sshwarma.building.apply import apply_plan
from sshwarma.building.plan import Plan, RoomStep, make_plan
from sshwarma.building.read_room import read_room_folder
from sshwarma.building.room_folder import RoomFolder, join_files, list_unread, read_folders
from sshwarma.common.limits import MAX_SHOWN_BUILD_STEPS
from sshwarma.lua_tools.declaration import parse_declaration
from sshwarma.lua_tools.trigger_declaration import parse_trigger
from sshwarma.services import services_of
from sshwarma.verbs.arguments import Flag, RoomName, TextAfterEquals
from sshwarma.verbs.build_views import BuildResult, BuildStatus, BuildStep
from sshwarma.verbs.export import export
from sshwarma.verbs.file_views import FileData, FileDownload
from sshwarma.verbs.registry import verb
from sshwarma.verbs.rights import TRIGGER_RIGHT, DataRight
from sshwarma.verbs.shell_command import write_ssh_command
from sshwarma.workspaces.text_diff import compare_contents
from sshwarma.world import movement, names, things
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, NotFound, WorldError, empty_error
from sshwarma.world.reader import TextByReader
from sshwarma.world.store import Change
from sshwarma.wrap.snapshot import is_layer_script

_BUILD_RIGHT = DataRight(Right.BUILD, "in each room that it changes")
_NEW_ROOM_RIGHT = DataRight(Right.CREATE, "for each new room")
_ACCESS_RIGHT = DataRight(Right.MODERATE, "to change who or which models may come in")

_ACCESS_KINDS = ("access", "models")


@export.verb(
    "folder",
    needs=Right.ENTER,
    tool=False,
    examples=("/export folder", "/export folder studio"),
)
async def export_folder(caller: Caller, room: RoomName | None = None) -> FileDownload | FileData:
    """Export a room as a folder of plain files, which `build` reads.

    Its texts, tools, equipment, exits and settings, in a tar archive; not its log, its members and
    its files.

    For people:
        From a shell: ssh HOST export folder ROOM | tar x

    Args:
        room: the room (default: this one).
    """
    there = await caller.in_room(room) if room else caller
    query = partial(
        read_room_folder,
        room_id=there.room_id,
        agents=caller.world.agents,
        known_ids=await _list_known_ids(caller),
    )
    folder = await caller.world.store.read(query)
    data = await asyncio.to_thread(lambda: archive.pack(join_files([folder])))
    workspaces = services_of(caller).workspaces
    entry = await workspaces.store(data)
    name = f"{folder.name}.tar"
    saved_by = write_ssh_command("export folder", room=folder.name)
    if caller.wants_bytes:
        blob = await asyncio.to_thread(workspaces.blobs.check, entry.sha256)
        return FileDownload(name, entry.size, entry.sha256, blob, saved_by)
    encoded = base64.b64encode(data).decode()
    return FileData(name, entry.size, entry.sha256, encoded, saved_by)


@verb(
    "build",
    section="Building",
    needs=Right.ENTER,
    also_needs=(_NEW_ROOM_RIGHT, _BUILD_RIGHT, _ACCESS_RIGHT, TRIGGER_RIGHT),
    scope=TokenScope.APPROVE,  # it can lift approvals of tools
    tool=False,
    takes_bytes=True,
    examples=("/build --encoded = b2ZmaWNlLw==",),
)
async def build(
    caller: Caller,
    archive: TextAfterEquals | None = None,
    *,
    apply: Flag = False,
    prune: Flag = False,
    encoded: Flag = False,
) -> BuildResult:
    """Build rooms from folders of plain files: all of them, or nothing.

    Shows what would change; with `apply` it does it. Each folder with a room.toml is the room of
    its name. A second build of the same folder changes nothing.

    For people:
        From a shell: tar c DIR | ssh HOST build --apply

        /help building says what the files are.

    Args:
        archive: a tar archive of the folders, in base64.
        apply: do it.
        prune: remove texts and tools of the rooms that the folders lack.
        encoded: says that the archive is given in base64.
    """
    data = await _read_archive(caller, archive, encoded=encoded)
    return await build_rooms(caller, data, is_applied=apply, prune=prune)


async def build_rooms(caller: Caller, data: bytes, *, is_applied: bool, prune: bool) -> BuildResult:
    """Build rooms from an archive, or say what that would change.

    Raises:
        WorldError: with the reason, naming the file or step; then nothing is changed.
    """
    files = await asyncio.to_thread(archive.unpack, data)
    folders = await asyncio.to_thread(read_folders, files)
    unread = tuple(list_unread(files))
    known_ids = await _list_known_ids(caller)

    def plan_from(conn: Connection) -> Plan:
        return make_plan(conn, folders, caller.world.agents, known_ids, prune=prune)

    plan = await caller.world.store.read(plan_from)
    await _check_rights(caller, plan)
    await _check_scripts(caller, plan, folders)
    names_of_rooms = tuple(folder.name for folder in folders)
    shown = await asyncio.to_thread(_show_steps, plan.steps[:MAX_SHOWN_BUILD_STEPS])
    status: BuildStatus = "planned" if plan.steps else "same"
    if is_applied and plan.steps:
        is_open = await caller.visibility_filter()
        size = sum(len(step.new.encode()) for step in plan.steps)
        caller.charge_text_volume(size)

        def work(tx: Change) -> None:
            if plan_from(tx.conn) != plan:
                raise Conflict("The rooms were changed meanwhile.", hint="Build again.")
            apply_plan(tx, caller, plan, is_open)

        try:
            await caller.change(work)
        except WorldError:
            caller.charge_text_volume(-size, is_stored=True)
            raise
        await _evict_strangers(caller, plan)
        status = "applied"
    return BuildResult(status, names_of_rooms, len(plan.steps), shown, plan.kept, unread)


async def _list_known_ids(caller: Caller) -> frozenset[str]:
    return frozenset(room.id for room in await caller.known_rooms())


def _show_steps(steps: Sequence[RoomStep]) -> tuple[BuildStep, ...]:
    return tuple(
        BuildStep(step.room, step.kind, step.name, step.action, _compare(step))
        for step in sorted(steps, key=lambda one: one.room)
    )


def _compare(step: RoomStep) -> str:
    """Return the difference of a text that is new or changes; "" for other steps."""
    if step.action == "remove" or step.kind == "trigger":
        return ""
    end = "" if step.kind in ("text", "tool") else "\n"  # a line of room.toml
    old, new = (text + end if text else "" for text in (step.old, step.new))
    return compare_contents(old.encode(), new.encode()).text


async def _check_rights(caller: Caller, plan: Plan) -> None:
    """Raise unless the caller may do all steps of a plan.

    Raises:
        Conflict: if a room has the name of one that the caller may not know of.
        Forbidden: naming the right that is missing, and the room.
        NotFound: if an exit leads to a room that the caller may not know of.
    """
    for name in plan.rooms:
        try:
            await caller.in_room(name)
        except NotFound:
            raise Conflict(f"The name {name} is taken.") from None  # as of a new room
    if any(step.kind == "room" for step in plan.steps):
        await _NEW_ROOM_RIGHT.require(caller)
    new = {step.room for step in plan.steps if step.kind == "room"}
    for name in dict.fromkeys(step.room for step in plan.steps if step.room not in new):
        room = await caller.find_room(name)
        await _BUILD_RIGHT.require(caller, room=room)
        if any(step.room == name and step.kind in _ACCESS_KINDS for step in plan.steps):
            await _ACCESS_RIGHT.require(caller, room=room)
        if any(step.room == name and step.kind == "trigger" for step in plan.steps):
            await TRIGGER_RIGHT.require(replace(caller, command="build"), room=room)
    for step in plan.steps:
        if step.kind == "exit" and step.new and step.new not in new:
            await caller.in_room(step.new)


async def _check_scripts(caller: Caller, plan: Plan, folders: Sequence[RoomFolder]) -> None:
    """Raise unless all scripts of a plan are valid Lua, with heads that are right.

    Those of triggers that are turned on are checked also where they do not change.

    Raises:
        Invalid: naming the file or the trigger.
    """
    lua = services_of(caller).lua_tools
    texts = {folder.name: folder.texts for folder in folders}
    for step in plan.steps:
        name, source = step.name, step.new or None
        if step.kind == "trigger" and step.action != "remove":
            name = f"{names.TRIGGER_PREFIX}{step.name}"
            source = texts[step.room].get(name)
            if source is None:
                source = await _read_text(caller, plan.rooms.get(step.room), name)
        elif step.kind not in ("text", "tool"):
            continue
        if source is None:
            continue  # it is removed, or the step says that there is no such text
        is_trigger = step.kind != "tool" and name.startswith(names.TRIGGER_PREFIX)
        try:
            if step.kind == "tool":
                parse_declaration(source)
            if is_trigger:
                parse_trigger(source)
            if step.kind == "tool" or is_trigger or is_layer_script(name):
                await lua.check_syntax(name, source)
        except Invalid as error:
            error.message = f"{step.room}: {step.kind} {step.name}: {error.message}"
            raise


async def _read_text(caller: Caller, room_id: str | None, name: str) -> str | None:
    """Return a text of a room; None if there is no such room or text."""
    if room_id is None:
        return None
    query = partial(things.find_child, parent_id=room_id, name=name)
    found = await caller.world.store.read(query)
    return None if found is None else found.content


async def _evict_strangers(caller: Caller, plan: Plan) -> None:
    """Send those away who may not be in a room any more."""
    for step in plan.steps:
        if step.kind == "access" and step.room in plan.rooms:
            reason = f"Only members may be in {step.room} now. Ask {caller.agent.name}."
            await movement.evict_strangers(caller.world, plan.rooms[step.room], reason)


async def _read_archive(caller: Caller, given: str | None, *, encoded: bool) -> bytes:
    """Return the bytes of the archive that comes with a request.

    Raises:
        Invalid: if it is missing, too large or not in base64.
    """
    if caller.upload is not None:
        if given is not None or encoded:
            raise Invalid("archive: must not be given with piped input.")
        archive.check_size(caller.upload.size)
        return await asyncio.to_thread(caller.upload.read)
    hint = TextByReader(
        "From a shell: tar c DIR | ssh HOST build",
        "Give the archive in base64, and encoded: true.",
    )
    if given is None:
        raise empty_error("archive", hint=hint)
    if not encoded:
        raise Invalid("archive: must come by a pipe, or in base64.", hint=hint)
    try:
        data = base64.b64decode(given, validate=True)
    except ValueError as error:
        raise Invalid(f"archive: is not valid base64: {error}.") from error
    archive.check_size(len(data))
    return data
