"""Somebody who asks with SQL in a world full of secrets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import insert

from sshwarma.world import (
    equipment,
    input_history,
    login_keys,
    memory,
    private_messages,
    projects,
    rooms,
    rows,
    things,
    tokens,
    usage,
)
from sshwarma.world.access import set_member
from sshwarma.world.databases import Location
from sshwarma.world.errors import WorldError
from sshwarma.world.reports import ReportResult, ReportScope
from sshwarma.world.schema import tool_calls, toolset_files
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import arrive, do, opened

SECRET = "sesame"
"""Whatever bob must not see has this word in it."""


READABLE = (
    "messages", "tools", "skills", "sessions", "session_state", "chats", "toolsets",
    "toolset_mcp_servers", "projects", "project_memory", "usage", "tool_calls", "turns", "rows",
    "things", "equipped", "exits", "tool_overrides", "toolset_files", "workspace_manifests",
    "manifests", "manifest_entries",
)  # fmt: skip
"""All that /sql can read."""


@dataclass
class Asking:
    """Bob, who may enter the lobby and his den, asks about a world full of secrets."""

    world: World
    scope: ReportScope
    admin: ReportScope

    async def ask(self, sql: str) -> ReportResult:
        return await self.world.reports.run_query(sql, self.scope)

    async def column(self, sql: str) -> list[Any]:
        return [row[0] for row in (await self.ask(sql)).rows]

    async def refused(self, sql: str) -> WorldError:
        with pytest.raises(WorldError) as caught:
            await self.ask(sql)
        assert SECRET not in str(caught.value)
        assert caught.value.message.endswith((".", "?")), caught.value.message
        return caught.value


def _keep_secret_project(tx: Change, owner_id: str) -> None:
    project = projects.create_project(tx, f"/srv/{SECRET}", owner_id=owner_id, created_by=owner_id)
    for value in (SECRET, f"{SECRET} again"):
        memory.write_value(tx, project.id, SECRET, value, author_id=owner_id)


async def keep_secrets(world: World) -> Asking:
    """Fill a new world with secrets that bob must not see."""
    alice, bob = await arrive(world, "alice", role="owner"), await arrive(world, "bob")
    qwen = await arrive(world, "qwen", kind="model", door="model")
    carol = await arrive(world, "carol")
    await do(alice, "hello from the lobby")
    await do(bob, "/tell alice for you two")
    await do(alice, f"/tell carol {SECRET} told")
    await do(carol, f"/alias {SECRET} = /who")
    await do(carol, f"/put me:{SECRET} = {SECRET} in a bag")
    await do(bob, "/put me:mine = my own")

    def fill(tx: Change) -> dict[str, str]:
        owner = alice.agent
        vault = rooms.create_room(tx, f"{SECRET}-vault", owner, description=SECRET).id
        things.set_metadata(tx, vault, access="private")
        den = rooms.create_room(tx, "den", owner).id
        for room in (vault, den):
            set_member(tx, room, owner.id, created_by=None, role="owner")
        row = rows.append_row(tx, vault, "chat", f"{SECRET} said", author_id=owner.id)
        rows.append_row(tx, den, "chat", "said in the den", author_id=bob.id)
        things.create_thing(tx, vault, "data", SECRET, content=SECRET)
        states = things.create_thing(tx, vault, "container", "states")
        things.create_thing(
            tx, states.id, "data", "qwen", content=SECRET, metadata={"role": "state"}
        )
        things.create_thing(tx, vault, "tool", SECRET, qualified_name=f"vault:{SECRET}",
                      description=SECRET, metadata={"input_schema": {"title": SECRET}})  # fmt: skip
        tx.conn.execute(insert(tool_calls).values(
            id=row.id, room_id=vault, tool_id=SECRET, args=SECRET, status="success", started_at="26"
        ))  # fmt: skip
        usage.record_usage(tx, vault, qwen.id, None, SECRET, usage.TokenUsage(1, 1))
        usage.record_usage(tx, "lobby", qwen.id, None, "m", usage.TokenUsage(3, 4))
        kit = things.create_thing(tx, "toolsets", "toolset", "kit", qualified_name="kit",
                            metadata={"source_ref": f"https://{SECRET}@host/"})  # fmt: skip
        things.create_thing(tx, kit.id, "mcp", "srv", metadata={
            "server_type": "stdio", "command": f"run-{SECRET}", "args": [SECRET],
            "env": {"API_KEY": SECRET}, "headers": {"Authorization": SECRET}, "token": SECRET,
            "url": f"https://host/?key={SECRET}",
        })  # fmt: skip
        tx.conn.execute(insert(toolset_files).values(
            toolset_id="kit", path="a.py", kind="python", sha256="0", size=1, stored_path=SECRET,
        ))  # fmt: skip
        things.set_metadata(tx, qwen.id, base_url=SECRET, aliases={SECRET: SECRET})
        login_keys.add_key(tx, carol.id, "SHA256:x", f"ssh-ed25519 {SECRET}", SECRET)
        tokens.issue_token(tx, carol.id, SECRET, None, None)
        equipment.equip_things(tx, carol.id, [things.get_live_thing(tx.conn, "tool_look")])
        _keep_secret_project(tx, carol.id)
        return {"den": den, "vault": vault}

    made = await world.change(fill)
    await world.store.write(
        lambda tx: input_history.append_input_history(tx, [(carol.id, f"say {SECRET}")])
    )
    (log,) = await world.store.read(lambda conn: private_messages.read_private_logs(conn, bob.id))
    may_read = ("lobby", "home", made["den"], log)
    everyone = (*may_read, made["vault"])
    return Asking(
        world, ReportScope(bob.id, may_read), ReportScope(alice.id, everyone, is_admin=True)
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bobs(shared_world: World) -> Asking:
    """Bob, in a world that all tests of a module only read."""
    return await keep_secrets(shared_world)


@pytest_asyncio.fixture(loop_scope="module")
async def own_bobs(database: Location) -> AsyncIterator[Asking]:
    """Bob, in a world of the test's own."""
    async with opened(database) as world:
        yield await keep_secrets(world)
