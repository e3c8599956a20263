"""Operations of the command line that only a running server can do."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import structlog

from sshwarma.admin.drain import Drain
from sshwarma.admin.host_keys import (
    describe_host_keys,
    describe_new_next_key,
    describe_switched_key,
    make_next_key,
    use_next_key,
)
from sshwarma.admin.operation_registry import (
    Json,
    audited_change,
    format_time,
    register_operation,
    require_agent,
)
from sshwarma.admin.operations import run_operation
from sshwarma.admin.reload import ReloadReport
from sshwarma.admin.served_data_dir import ServedDataDir
from sshwarma.admin.upkeep import Upkeep
from sshwarma.common.limits import MAX_DRAIN_MINUTES
from sshwarma.common.units import MINUTE_SECONDS
from sshwarma.imports.taking import choose_person
from sshwarma.services import Services
from sshwarma.settings import LimitSettings, Settings, SettingsSource
from sshwarma.ssh.transport.host_key import compute_fingerprint
from sshwarma.verbs.build import build_rooms as build
from sshwarma.verbs.views import draw_result
from sshwarma.world.announcements import make_announcement
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, Unavailable, empty_error
from sshwarma.world.events import Announcement
from sshwarma.world.free_pages import read_free_pages
from sshwarma.world.ids import LOBBY_ID
from sshwarma.world.store import Change
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

__all__ = ["RunningServer", "run_operation"]

OPERATOR: Final = "the operator"
"""Whose name an announcement from the command line has; no agent can be called so."""


class RunningServer(Protocol):
    """The parts of a running server that its operations use."""

    @property
    def upkeep(self) -> Upkeep:
        """What it does for its world by itself."""

    @property
    def data_dir(self) -> ServedDataDir:
        """Its data directory, with the database that it holds open."""

    @property
    def services(self) -> Services:
        """The services of its requests."""

    @property
    def drain(self) -> Drain:
        """What ends it when what runs is finished."""

    @property
    def source(self) -> SettingsSource:
        """Where its settings come from."""

    async def reload(self) -> ReloadReport:
        """Read the settings again."""

    async def load_host_keys(self) -> None:
        """Use the host keys in the data directory for new connections."""


@register_operation
async def reload(server: RunningServer | None, /, file: str | None = None) -> Json:
    """Read the settings again; return what changed.

    `file` is the settings file that somebody thinks the server reads.

    Raises:
        Invalid: if that is another one, or the settings are not valid; then nothing has changed.
    """
    running = require_server(server)
    read = running.source.file
    if file is not None and read != Path(file):
        raise Invalid(
            f"The server reads {read or 'no settings file'}, and not {file}. Nothing was reloaded.",
            hint="Change that file, or start the server with another --config FILE.",
        )
    # A slow MCP server may outlast the request, which must not cut the reload short.
    report = await asyncio.shield(asyncio.ensure_future(running.reload()))
    return report.as_json()


@register_operation
async def settings_source(server: RunningServer | None, /) -> Json:
    """The settings file of the server, and the names of its environment variables."""
    file = require_server(server).source.file
    return {"file": str(file) if file is not None else None, "variables": sorted(os.environ)}


@register_operation
async def database_address(settings: Settings | None, server: RunningServer | None, /) -> Json:
    """The address of the database that has the world; "" if it is in a file."""
    require_server(server)
    return {"database": settings.database if settings is not None else ""}


@register_operation
async def broadcast(
    world: World, settings: Settings | None, server: RunningServer | None, /, text: str
) -> Json:
    """Send a message to everyone who is connected.

    It is sent on a full disk, too: `unrecorded` says then why the audit has no row of it.

    Raises:
        Invalid: if it is empty, longer than a line may be, or seems to contain a key.
    """
    require_server(server)
    limit = (settings.limits if settings is not None else LimitSettings()).line_bytes
    if not text.strip():
        raise empty_error("message", hint="Give a text, or - for standard input.")
    if len(text.encode()) > limit:
        raise Invalid(f"The message has over {limit} bytes.")
    announcement = make_announcement(OPERATOR, text.strip())
    return await _announce(world, f"broadcast {text}", announcement, is_for_all=True)


@register_operation
async def drain(world: World, server: RunningServer | None, /, minutes: float) -> Json:
    """Let the server end in some minutes, or earlier when nobody is connected.

    Raises:
        Invalid: if the time is negative or too long.
    """
    running = require_server(server)
    if not 0 <= minutes <= MAX_DRAIN_MINUTES:
        raise Invalid(f"The time must be from 0 to {MAX_DRAIN_MINUTES} minutes (got {minutes:g}).")
    announcement = running.drain.begin(minutes * MINUTE_SECONDS)
    told = await _announce(world, f"drain --minutes {minutes:g}", announcement)
    at_ms = world.draining.ends_at
    at = world.draining.describe().rpartition(" at ")[2]
    return told | {"answers": running.drain.answers, "at": at, "ends_at": format_time(at_ms)}


@register_operation
async def drain_cancel(world: World, server: RunningServer | None, /) -> Json:
    """Let a server that was to end go on.

    Raises:
        Conflict: if it was not to end.
    """
    running = require_server(server)
    if not world.draining.is_on:
        raise Conflict("The server is not draining.", hint="sshwarma info shows when it is.")
    return await _announce(world, "drain --cancel", running.drain.cancel())


async def _announce(
    world: World, command: str, announcement: Announcement, *, is_for_all: bool = False
) -> Json:
    """Publish an announcement, with the audit row of its command.

    To the people of this server alone, or `is_for_all` who are connected to the world.

    On a full disk, too: `unrecorded` says then why the audit has no row of it.
    """
    unrecorded = ""
    try:
        publish = partial(_publish_on_commit, announcement=announcement)
        await audited_change(world, command, publish if is_for_all else lambda tx: None)
        is_published = is_for_all
    except Unavailable as error:
        unrecorded = str(error)
        log.error("the audit has no row of a command", command=command, reason=unrecorded)
        is_published = False
    if not is_published:
        world.publish(announcement)
    return {"agents": world.presence.count_agents(), "unrecorded": unrecorded}


def _publish_on_commit(tx: Change, announcement: Announcement) -> None:
    tx.publish_on_commit(announcement)


@register_operation
async def vacuum(world: World, server: RunningServer | None, /) -> Json:
    """Return the unused space of the database to the disk, in steps.

    Raises:
        Conflict: if the database has to be rebuilt once, which needs a stop.
    """
    running = require_server(server)
    free = await world.store.read(read_free_pages)
    if not free.can_shrink:
        raise Conflict(
            "The database was made by an older version, and has to be rebuilt once.",
            hint="Stop the server, run sshwarma vacuum, and start it again.",
        )
    await audited_change(world, "vacuum", lambda tx: None)
    # A large database takes longer than a request may; the rest goes on.
    work = asyncio.ensure_future(running.upkeep.return_free_pages())
    returned, is_shrunk = await asyncio.shield(work)
    return {"returned": returned, "is_shrunk": is_shrunk}


@register_operation
async def backup_failure(server: RunningServer | None, /) -> Json:
    """Where, when and why the last backup has failed; None if it has not."""
    failure = require_server(server).upkeep.failure
    if failure is None:
        return None
    return {
        "directory": str(failure.directory),
        "failed_at": format_time(int(failure.at * 1000)),
        "reason": failure.reason,
    }


@register_operation
async def copy_database(server: RunningServer | None, /) -> Json:
    """Copy the open database, whose file may be gone, beside its place."""
    database = require_server(server).data_dir.database
    if database is None:
        raise Unavailable("The server has no database yet.")
    # A large database takes longer than a request may: the copy goes on.
    work = asyncio.ensure_future(asyncio.to_thread(database.copy))
    return {"copy": str(await asyncio.shield(work))}


@register_operation
async def host_key_next(
    world: World, settings: Settings | None, server: RunningServer | None, /
) -> Json:
    """Create the next host key, and announce it to clients that log in."""
    return await _change_host_keys(world, settings, server, make_next_key, describe_new_next_key)


@register_operation
async def host_key_switch(
    world: World,
    settings: Settings | None,
    server: RunningServer | None,
    /,
    at_once: bool = False,
) -> Json:
    """Make the next host key the one in use.

    With `at_once`, also if clients cannot have learned it.
    """
    announced = [compute_fingerprint(key) for key in require_server(server).data_dir.host_keys[1:]]
    use_key = partial(use_next_key, at_once=at_once, announced=announced)
    describe = partial(describe_switched_key, at_once=at_once)
    return await _change_host_keys(world, settings, server, use_key, describe)


async def _change_host_keys(
    world: World,
    settings: Settings | None,
    server: RunningServer | None,
    change: Callable[[Path], Json],
    describe: Callable[[Json], str],
) -> Json:
    running = require_server(server)
    if settings is None:
        raise Unavailable("The data directory is not known.")
    keys = await asyncio.to_thread(change, settings.data_dir)
    await running.load_host_keys()
    try:
        await audited_change(world, describe(keys), lambda tx: None)
    except Unavailable as error:  # the keys have changed
        log.error("the audit has no row of a command", command=describe(keys), reason=str(error))
    return await asyncio.to_thread(describe_host_keys, settings.data_dir)  # now it is announced


@register_operation
async def build_rooms(
    world: World,
    server: RunningServer | None,
    /,
    archive: str,
    apply: bool,
    prune: bool,
    person: str | None,
) -> Json:
    """Build rooms from an archive in base64, with a person's rights.

    `shown` are the lines for people.
    """
    services = require_server(server).services
    agent = require_agent(world, choose_person(world, person))
    caller = Caller(world, services, services.settings.limits, agent, LOBBY_ID, "exec")
    result = await build(
        caller.with_verb("build", "sshwarma build"),
        base64.b64decode(archive),
        is_applied=apply,
        prune=prune,
    )
    return {**asdict(result), "shown": draw_result(result).plain().split("\n")}


def require_server(server: RunningServer | None) -> RunningServer:
    """Return the running server.

    Raises:
        Unavailable: if no server is running.
    """
    if server is None:
        raise Unavailable("No server is running.")
    return server
