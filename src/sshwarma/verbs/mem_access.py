"""Who may use the memory of a project that is not the room's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from sshwarma.services import services_of
from sshwarma.world import projects
from sshwarma.world.access import (
    Member,
    Right,
    compute_rights,
    permission_denied_error,
    read_members,
)
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, Invalid
from sshwarma.world.ids import now_ms
from sshwarma.world.projects import ProjectPath


async def check_membership(caller: Caller, path: ProjectPath, *, writes: bool) -> bool:
    """Return whether a project exists, if the caller may use it from anywhere.

    Raises:
        Forbidden: if it may not.
    """

    def read(conn: Connection) -> tuple[bool, dict[str, Member]]:
        project = projects.find_project(conn, path.path)
        return project is not None, read_members(conn, project.id) if project else {}

    exists, members = await caller.world.store.read(read)
    # Who named the project of a room first would own what the room stores.
    if exists or await services_of(caller).projects.is_used_by_rooms(path.path):
        check_member(caller, path, members, Right.TALK if writes else Right.ENTER)
        return True
    if Right.CREATE not in caller.rights_in(await caller.room(), now_ms()):
        raise _no_member_error(path, [])  # who could not make it learns nothing of it
    if writes and path.is_by_link and caller.agent.role not in ("owner", "admin"):
        # Its list of projects would say where the links of the server lead.
        raise Invalid(
            f"project: {path.given} leads elsewhere by a link.", hint="Name the directory itself."
        )
    return False


def check_member(
    caller: Caller, path: ProjectPath, members: Mapping[str, Member], needed: Right
) -> None:
    """Raise Forbidden unless all readers of a caller have a right in a project."""
    now, readers = now_ms(), caller.readers
    if readers and all(
        needed in compute_rights(reader, "private", members.get(reader.id), now)
        for reader in readers
    ):
        return
    owners = [one.agent_id for one in members.values() if one.role == "owner"]
    may_ask = caller.agent.role != "guest"
    raise _no_member_error(
        path, sorted(map(caller.world.agents.name_of, owners)) if may_ask else []
    )


def _no_member_error(path: ProjectPath, owners: Sequence[str]) -> Forbidden:
    return permission_denied_error(
        f"needs to be a member of the project {path.given}", ask=owners or ["an admin"]
    )
