"""Operations of `sshwarma import`, which stores in steps what it has read.

Large modules are imported inside functions: every command that runs without a server imports this
one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sshwarma.admin.operation_registry import (
    Json,
    audited_change,
    register_operation,
    require_agent,
)
from sshwarma.common.finish import finish
from sshwarma.imports.items import Step, parse_step
from sshwarma.imports.taking import check_model, choose_person, find_person, take_step, try_step
from sshwarma.imports.taking_texts import check_project_path
from sshwarma.settings import LimitSettings, Settings
from sshwarma.world.audit import Origin, operator
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, Unavailable
from sshwarma.world.ids import LOBBY_ID
from sshwarma.world.names import check_name
from sshwarma.world.projects import follow_links, is_place
from sshwarma.world.store import Change
from sshwarma.world.world import World

if TYPE_CHECKING:
    from sshwarma.services import Services


class InstallingServer(Protocol):
    """The part of a running server that installs toolsets."""

    @property
    def services(self) -> Services:
        """Its services."""


@register_operation
async def import_names(world: World, /, person: str | None, model: str) -> Json:
    """Return for whom an import is, and whether its model is one of the world."""
    name = choose_person(world, person)
    if model:
        check_name(model, "agent")

    def read(conn: Any) -> bool:
        return bool(model) and check_model(conn, model) is not None

    is_known = await world.store.read(read)
    agent = require_agent(world, name)
    return {"person": agent.name, "model": model, "model_is_new": bool(model) and not is_known}


@register_operation
async def import_begin(world: World, /, line: str, person: str) -> Json:
    """Record an import in the audit before its first step."""

    def work(tx: Change) -> None:
        find_person(tx, person)

    await audited_change(world, f"import {line}", work)


@register_operation
async def import_step(
    world: World,
    settings: Settings | None,
    server: InstallingServer | None,
    /,
    step: dict[str, Any],
    person: str,
    model: str,
    apply: bool,
) -> Json:
    """Store a step of an import, or with `apply` false say what that would do."""
    parsed = parse_step(step)
    limits = settings.limits if settings is not None else LimitSettings()
    paths = await asyncio.to_thread(_find_projects, parsed)
    work = take_step if apply else try_step
    report = await work(
        world, parsed, person=person, model=model, thing_bytes=limits.thing_bytes, paths=paths,
        start_project="" if server is None else server.services.projects.start_project,
    )  # fmt: skip
    return report.as_json()


def _find_projects(step: Step) -> dict[str, str]:
    """Return the canonical paths of the projects of values, as people name them here.

    In a thread: a path may lead to a file system that does not answer.
    """
    given = {item.project for item in step.items} if step.kind == "values" else set()
    found = {path: _find_canonical(path) for path in given if check_project_path(path)}
    return {path: where for path, where in found.items() if where}


def _find_canonical(path: str) -> str:
    """Return the canonical path of a directory; "" if it cannot be that of a project."""
    try:
        found = follow_links(path)
    except (Invalid, OSError):
        return ""
    return found if is_place(found) else ""


@register_operation
async def import_toolset_state(world: World, /, toolset: dict[str, str]) -> Json:
    """Return whether a toolset is `new`, `known` as it is, or another `version`."""
    from sshwarma.toolsets.records import check_toolset_id
    from sshwarma.toolsets.stored_keys import TREE_KEY

    space = await world.store.read(lambda conn: check_toolset_id(conn, toolset["id"]))
    if space is None or space.deleted_at is not None:
        return {"state": "new", "version": ""}
    is_same = space.metadata.get(TREE_KEY) == toolset["tree"]
    version = str(space.metadata.get("version", ""))
    return {"state": "known" if is_same else "version", "version": version}


@register_operation
async def import_toolset(
    world: World,
    settings: Settings | None,
    server: InstallingServer | None,
    /,
    file: str,
    person: str,
) -> Json:
    """Install the toolset of a ZIP file that the command has put beside the world.

    Raises:
        Unavailable: if no server is running: its tools are looked at in a sandbox of the server.
        Invalid, Forbidden: as of `/toolset import`.
    """
    if server is None or settings is None:
        raise Unavailable(
            "Toolsets are installed by a running server, which looks at their tools in a sandbox.",
            hint="Start it with sshwarma serve, and run this command again.",
        )
    from sshwarma.toolsets.servers import Allowed

    archive = await asyncio.to_thread(_read_archive, Path(file), settings.data_dir)
    origin = Origin(os_user=operator.get())
    caller = Caller(
        world, server.services, settings.limits, require_agent(world, person), LOBBY_ID, "exec",
        origin=origin,
    ).with_verb("toolset import", f"sshwarma import, for {person}")  # fmt: skip
    # It may take longer than a request, whose end must not cut it.
    done = await finish(server.services.toolsets.install(caller, archive, Allowed()))
    return {
        "id": done.id,
        "version": done.version,
        "how": done.upgrade.name_kind(done.version),
        "tools": done.tools,
        "servers": done.servers,
        "warnings": list(done.warnings),
    }


def _read_archive(file: Path, data_dir: Path) -> bytes:
    """Return a file in a folder of the data directory."""
    from sshwarma.toolsets.archive import check_archive_size

    if file.is_symlink() or data_dir.resolve() not in file.resolve().parents:
        raise Invalid("The file is not in the data directory.")
    check_archive_size(file.stat().st_size)
    return file.read_bytes()
