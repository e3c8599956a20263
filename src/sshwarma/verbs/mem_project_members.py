"""The verbs of `/mem` on projects themselves, and who may use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import AgentName
from sshwarma.verbs.mem import Memory, find_memory, mem, read_memory
from sshwarma.verbs.mem_keys import ProjectName
from sshwarma.verbs.rights import DataRight
from sshwarma.verbs.views import draw_columns, format_count, view
from sshwarma.world import memory, projects
from sshwarma.world.access import (
    Member,
    Right,
    TokenScope,
    compute_rights,
    permission_denied_error,
    read_all_members,
    read_members,
    set_member,
)
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, NotFound
from sshwarma.world.ids import now_ms
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

PROJECT_OWNER_RIGHT = DataRight(Right.ADMIN, "for a project that is not yours")


@dataclass(frozen=True, slots=True)
class ProjectItem:
    """A project: its path, how many keys it has, and the caller's role in it."""

    path: str
    keys: int
    role: str


@dataclass(frozen=True, slots=True)
class ProjectList:
    """The projects that the caller may use, by path.

    `of_room` is the path of the one that the room uses.
    """

    of_room: str
    projects: tuple[ProjectItem, ...]


@view(ProjectList)
def draw_project_list(result: ProjectList) -> Block:
    """Draw the projects with their keys, the one of the room marked."""
    if not result.projects:
        return block(line(f"No project has a memory yet; this room uses {result.of_room}."))
    rows = (
        (
            ("thing", item.path),
            format_count(item.keys, "key"),
            ("ok", "of this room") if item.path == result.of_room else ("dim", item.role),
        )
        for item in result.projects
    )
    return block(*draw_columns(rows, indent=0))


@mem.verb("projects", needs=Right.ENTER, tool=False, examples=("/mem projects",))
async def list_projects(caller: Caller) -> ProjectList:
    """List the projects whose memory you may use."""
    of_room = (await find_memory(caller)).project
    found = await find_readable_projects(caller)

    def count(conn: Connection) -> tuple[ProjectItem, ...]:
        return tuple(
            ProjectItem(project.name, memory.list_keys(conn, project.id, limit=0).total, role)
            for project, role in found
        )

    return ProjectList(of_room.path if of_room else "", await caller.world.store.read(count))


async def find_readable_projects(caller: Caller) -> list[tuple[Thing, str]]:
    """Return the projects that the caller may read, with its role in each.

    What a tool returns is shown in the room: it reads only the project of the room. So does a
    script, whose author may be no member.
    """
    has_only_own = caller.is_shown_in_room or caller.is_of_script
    of_room = (await find_memory(caller)).project
    path, now = of_room.path if of_room else "", now_ms()

    def read(conn: Connection) -> list[tuple[Thing, str]]:
        members = read_all_members(conn)
        found = []
        for project in projects.read_projects(conn):
            member = members.get(project.id, {}).get(caller.agent.id)
            rights = compute_rights(caller.agent, "private", member, now)
            is_member = Right.ENTER in rights and not has_only_own
            if project.name == path or is_member:
                found.append((project, (member.role or "") if member else ""))
        return found

    return await caller.world.store.read(read)


@dataclass(frozen=True, slots=True)
class ProjectMembers:
    """The members of a project by name, with their roles."""

    path: str
    of_room: bool
    members: dict[str, str]


@view(ProjectMembers)
def draw_project_members(result: ProjectMembers) -> Block:
    """Draw who may use a project."""
    lines = [line(("heading", f"Members of the project {result.path}"), hang=2)]
    lines += draw_columns(
        (("name", name), ("dim", role)) for name, role in sorted(result.members.items())
    )
    if result.of_room:
        lines.append(line(("dim", "  All who are in a room that uses it may use it, too.")))
    elif not result.members:
        lines.append(line(("dim", "  nobody but admins")))
    return block(*lines)


@mem.verb(
    "project members",
    needs=Right.ENTER,
    tool=False,
    examples=("/mem project members --project ../site",),
)
async def list_project_members(
    caller: Caller, *, project: ProjectName | None = None
) -> ProjectMembers:
    """Show who may use a project wherever they are.

    Args:
        project: path of another project (default: the project of this room).
    """
    place = await find_memory(caller, project)
    return await _describe_members(caller, place)


async def _describe_members(caller: Caller, place: Memory) -> ProjectMembers:
    if place.is_new_project:
        raise NotFound(
            f"Nothing is stored for the project {place.given} yet.",
            hint="Who stores the first value owns it.",
        )
    members = await read_memory(caller, place, _read_members)
    names = caller.world.agents.name_of
    path = place.project
    return ProjectMembers(
        place.shown_project or "",
        path is not None and path.is_default,
        {names(one.agent_id): one.role for one in members.values() if one.role},
    )


@mem.verb(
    "project member",
    needs=Right.TALK,
    also_needs=(PROJECT_OWNER_RIGHT,),
    scope=TokenScope.BUILD,
    tool=False,
    examples=(
        "/mem project member bob member --project ../site",
        "/mem project member bob none --project ../site",
    ),
)
async def set_project_member(
    caller: Caller,
    name: AgentName,
    role: Literal["member", "owner", "none"],
    *,
    project: ProjectName | None = None,
) -> ProjectMembers:
    """Let somebody use a project, or end that.

    Members read and change its memory from every room, and may leave; owners also decide who is a
    member.

    Args:
        name: the agent: a person, a model or a program.
        role: member, owner or none.
        project: path of another project (default: the project of this room).
    """
    place = await find_memory(caller, project)
    agent, names = caller.world.agents.find(name), caller.world.agents.name_of
    members = await read_memory(caller, place, _read_members)
    own = members.get(caller.agent.id)
    is_owner = own is not None and own.role == "owner"
    owners = [names(one.agent_id) for one in members.values() if one.role == "owner"]
    is_leaving = own is not None and agent.id == caller.agent.id and role == "none"
    await PROJECT_OWNER_RIGHT.require(
        caller,
        caller.agent.id if is_owner or is_leaving else None,
        refusal=permission_denied_error("needs to be an owner of the project", ask=sorted(owners))
        if owners
        else None,
    )

    def work(tx: Change) -> None:
        scope_id = place.open_scope(tx, caller)
        present = _read_members(tx.conn, scope_id)
        owners = [one.agent_id for one in present.values() if one.role == "owner"]
        if owners == [agent.id] and role != "owner":
            raise Conflict(
                f"{agent.name} is the only owner of the project.", hint="Make another owner first."
            )
        if agent.id in present or role != "none":
            set_member(
                tx,
                scope_id,
                agent.id,
                created_by=caller.agent.id,
                role=None if role == "none" else role,
            )

    await caller.change(work)
    return await _describe_members(caller, place)  # also to who is no member any more


def _read_members(conn: Connection, scope_id: str | None) -> dict[str, Member]:
    return read_members(conn, scope_id) if scope_id else {}
