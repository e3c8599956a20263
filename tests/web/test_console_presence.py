"""How long somebody stays in a room whose last tab has gone."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from sshwarma.web.console import live
from sshwarma.world import browser_sessions, rooms
from sshwarma.world.tokens import end_token
from support.waiting import until
from web.test_console_sockets import Site, read_until, site

__all__ = ["site"]

pytestmark = pytest.mark.process


async def visit(site: Site) -> None:
    """Open a page of the lobby with its tab, and leave it for another page."""
    await ask(site, "/room/lobby")
    async with site.open() as tab:
        await read_until(tab, "here")
    await ask(site)


async def ask(site: Site, path: str = "/waiting") -> None:
    """Ask for a page, as each one that somebody sees asks for what waits."""
    async with httpx.AsyncClient(headers={"Cookie": site.cookie}) as client:
        assert (await client.get(f"{site.origin}{path}")).status_code == 200


async def read_moves(site: Site) -> list[str]:
    rows = await site.house.world.last_rows("lobby", 100)
    return [row.content for row in rows if row.kind == "presence"]


def is_here(site: Site) -> bool:
    agent = site.house.world.agents.find("alice")
    return bool(site.house.world.presence.connections_of(agent.id))


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tab that was left is looked at again at once."""
    monkeypatch.setattr(live, "CONSOLE_RELOAD_SECONDS", 0.01)
    monkeypatch.setattr(live, "LEAVE_CHECK_SECONDS", 0.01)


async def test_who_looks_at_another_page_stays(
    site: Site, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "CONSOLE_AWAY_SECONDS", 2.0)
    await visit(site)
    for _ in range(20):
        await ask(site, "/figures")
        assert await read_moves(site) == ["arrives"]
    async with site.open() as tab:
        await read_until(tab, "here")
        assert await read_moves(site) == ["arrives"]
    await until(lambda: not is_here(site))
    async with asyncio.timeout(20):
        while await read_moves(site) != ["arrives", "leaves"]:  # noqa: ASYNC110 - it is a row
            await asyncio.sleep(0.01)


async def test_who_signs_out_leaves_at_once(site: Site, soon: None) -> None:
    world = site.house.world
    await visit(site)
    assert is_here(site)
    token = await world.store.read(
        lambda conn: browser_sessions.find_session(conn, site.cookie.partition("=")[2])
    )
    assert token is not None
    await world.change(lambda tx: end_token(tx, token))
    await until(lambda: not is_here(site))


async def test_who_opens_another_room_leaves_the_first(site: Site, soon: None) -> None:
    world = site.house.world
    await visit(site)
    caller = site.house.caller("alice")
    room = await caller.change(lambda tx: rooms.create_room(tx, "attic", caller.agent))
    async with site.open(room="attic") as tab:
        await read_until(tab, "here")
        agent_id = world.agents.find("alice").id
        links = world.presence.connections_of
        await until(lambda: {one.room_id for one in links(agent_id)} == {room.id})
