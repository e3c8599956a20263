"""Every sequence of three acts on a namespace: results agree with possible calls."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from sqlalchemy import delete, insert, select

from sshwarma.terminal.render import render_plain
from sshwarma.verbs.views import draw_result
from sshwarma.world import namespaces, things
from sshwarma.world.errors import Conflict
from sshwarma.world.events import WorldChanged
from sshwarma.world.schema import equipped
from support.people import Someone, do, refused

pytestmark = pytest.mark.long

TOOLS = {"git:log", "git:push", "git.branch:new"}
OWN = {"git:log", "git:push"}

ACTS = (
    *(
        f"/{act} {context} git:*" if "equip" in act else f"/{act} git {context}"
        for act, context in product(("load", "unload", "equip", "unequip"), ("room", "me"))
    ),
    "/namespace set git auto_load on",
    "/namespace set git auto_load off",
)
OFF_ACTS = ("/unload git room --off", "/unload git me --off", "/unequip room git:* --off")


async def make_git(alice: Someone) -> None:
    """A namespace with two tools, and one inside it with one, which loads with it."""

    def work(tx: Any) -> None:
        for label in sorted(TOOLS):
            name, _, tool = label.partition(":")
            space = things.find_by_qualified_name(tx.conn, name) or namespaces.create_namespace(
                tx, name, alice.id
            )
            things.create_thing(tx, space.id, "tool", tool, qualified_name=label)

    await alice.world.change(work)
    await do(alice, "/namespace set git.branch load_with_parent on")


State = tuple[tuple[tuple[Any, ...], ...], int]
"""The equipment rows of the namespace and its tools, and its `auto_load`."""


async def read_state(alice: Someone) -> State:
    def read(conn: Any) -> State:
        query = select(
            equipped.c.context_id,
            equipped.c.thing_id,
            equipped.c.deleted_at.is_not(None),
            equipped.c.switched_off,
        ).order_by(equipped.c.context_id, equipped.c.thing_id)
        ids = _find_ids(conn)
        rows = conn.execute(query.where(equipped.c.thing_id.in_(ids)))
        return tuple(map(tuple, rows)), int(things.get_live_thing(conn, ids[0]).auto_load)

    return await alice.world.store.read(read)


async def restore_state(alice: Someone, state: State) -> None:
    def work(tx: Any) -> None:
        ids = _find_ids(tx.conn)
        tx.conn.execute(delete(equipped).where(equipped.c.thing_id.in_(ids)))
        rows, auto_load = state
        for context_id, thing_id, is_deleted, switched_off in rows:
            tx.conn.execute(
                insert(equipped).values(
                    context_id=context_id,
                    thing_id=thing_id,
                    created_at=tx.now,
                    deleted_at=tx.now if is_deleted else None,
                    switched_off=switched_off,
                )
            )
        things.update_thing(tx, ids[0], auto_load=auto_load)
        tx.publish_on_commit(WorldChanged())

    await alice.world.change(work)


def _find_ids(conn: Any) -> list[str]:
    found = [things.find_by_qualified_name(conn, name) for name in ("git", "git.branch", *TOOLS)]
    return [thing.id for thing in found if thing is not None]


async def callable_tools(someone: Someone) -> set[str]:
    load = await someone.world.loadout(someone.room_id, someone.id)
    return {item.thing.label for item in load.usable_tools} & TOOLS


async def act_and_compare(alice: Someone, line: str) -> None:
    """Carry out an act, and compare what it says with what can be called."""
    verb = line.split()[0]
    try:
        result = await do(alice, line)
    except Conflict as error:
        assert verb == "/load", str(error)
        assert "switched off" in error.message
        assert await callable_tools(alice) == set()
        return
    on = await callable_tools(alice)
    match verb:
        case "/load":
            assert result.loaded and set(result.tools) == on and on
            assert ("switched off" in result.note) is (on != TOOLS)
        case "/equip":
            assert {*result.changed, *result.already} == OWN
            assert ("switched off" in result.note) is not (on >= OWN)
        case "/unload" | "/unequip":
            meant = TOOLS if verb == "/unload" else OWN
            still_on, _, still_off = result.note.partition("These tools stay switched off")
            for label in TOOLS:
                assert (label in still_on) is (label in on & meant), result.note
                assert label not in still_off or label not in on, result.note
            assert ("Still on" in result.note) is bool(on & meant)
        case _:
            message = render_plain(draw_result(result))
            if line.endswith("on") and on != TOOLS:
                assert "is still switched off" in message
    listed = {item.id: item for item in (await do(alice, "/namespaces")).namespaces}
    assert listed["git"].loaded is bool(on & OWN)


@pytest.mark.long
@pytest.mark.parametrize(
    ("length", "count"), [(2, 30), pytest.param(3, 100, marks=pytest.mark.soak)]
)
async def test_results_agree_with_the_loadout_after_every_sequence(
    alice: Someone, length: int, count: int
) -> None:
    """Sequences that lead to the same rows are followed once."""
    await make_git(alice)
    start = await read_state(alice)
    ways: dict[State, tuple[str, ...]] = {start: ()}
    newest = [start]
    for _ in range(length):
        reached, newest = newest, []
        for state, line in product(reached, (*ACTS, *OFF_ACTS)):
            await restore_state(alice, state)
            try:
                await act_and_compare(alice, line)
            except AssertionError as error:
                raise AssertionError(f"{(*ways[state], line)}: {error}") from error
            after = await read_state(alice)
            if after not in ways:
                ways[after] = (*ways[state], line)
                newest.append(after)
    assert len(ways) > count


@pytest.mark.parametrize("before", ["", *ACTS, *OFF_ACTS])
@pytest.mark.parametrize("context", ["room", "me"])
@pytest.mark.parametrize(
    ("there", "back"), [("/load git {}", "/unload git {}"), ("/equip {} git", "/unequip {} git")]
)
async def test_load_then_unload_is_neutral(
    alice: Someone, bob: Someone, before: str, context: str, there: str, back: str
) -> None:
    await make_git(alice)
    if before:
        await do(alice, before)
    if before in (f"/load git {context}", f"/unload git {context} --off"):
        return  # there was a row to take back or to replace
    expected = [await callable_tools(someone) for someone in (alice, bob)]
    with suppress(Conflict):  # if it is switched off elsewhere, nothing was changed
        await do(alice, there.format(context))
    await do(alice, back.format(context))
    assert [await callable_tools(someone) for someone in (alice, bob)] == expected


async def test_unload_of_the_room_blocks_nobody(alice: Someone, bob: Someone) -> None:
    await make_git(alice)
    for lines in (
        ("/load git room", "/unload git room"),
        ("/equip room git:*", "/unequip room git:*"),
    ):
        for line in lines:
            await do(alice, line)
        assert await callable_tools(bob) == set()
        loaded = await do(bob, "/load git")
        assert set(loaded.tools) == await callable_tools(bob) == TOOLS
        await do(bob, "/unload git")


async def test_refusals_name_every_tool_that_is_off_and_the_way_back(alice: Someone) -> None:
    await make_git(alice)
    await do(alice, "/unequip room git:* --off")
    names = ",".join(sorted(OWN))
    ways = (
        f"/equip room {names} switches them on. After that, /unequip room {names} leaves them"
        " neither equipped nor switched off."
    )
    assert render_plain(draw_result(await do(alice, "/load git"))).endswith(ways)
    text = render_plain(draw_result(await do(alice, "/unequip room git:*")))
    assert "Switched off there: 2 of 2." in text
    assert text.endswith(ways.replace(names, "git:*"))
    await do(alice, "/equip room git:*")
    await do(alice, "/unequip room git:*")
    assert await callable_tools(alice) == TOOLS, "neutral: alice has loaded it"
    await do(alice, "/unload git")
    assert await callable_tools(alice) == set()
    await do(alice, "/load git")
    assert await callable_tools(alice) == TOOLS


async def test_explicit_off_is_visible_and_names_its_switch(alice: Someone, bob: Someone) -> None:
    await make_git(alice)
    off = await do(alice, "/unload git room --off")
    assert render_plain(draw_result(off)) == "Switched off namespace git in this room."
    assert (await alice.world.last_rows("lobby", 1))[0].content == "switched off git"
    why = "git was not loaded, because none of its tools could be called: git is switched off in"
    way = (
        "/load git room switches it on. After that, /unload git room leaves it neither loaded nor"
        " switched off."
    )
    assert str(await refused(alice, "/load git")) == f"{why} this room. {way}"
    assert str(await refused(bob, "/load git")) == f"{why} this room. Ask alice."
    assert render_plain(draw_result(await do(alice, "/unload git room"))) == (
        "git is switched off in this room. /load git room switches it on. After that, /unload git"
        " room leaves it neither loaded nor switched off."
    )
    assert "switched off in this room" in render_plain(draw_result(await do(bob, "/namespaces")))
    assert str(await refused(bob, "/run git:log")) == (
        "git:log cannot be called: git is switched off in this room. Ask alice."
    )
    assert (await do(bob, "/inv")).switched_off == ("git",)
    equipped_alone = await do(bob, "/equip me git:log")
    assert equipped_alone.note == "" and await callable_tools(bob) == {"git:log"}
    await do(alice, "/unequip room git:log --off")
    blocked = await do(bob, "/equip me git:log")
    assert blocked.note == "Not all can be called: git:log is switched off in this room. Ask alice."
    await do(alice, "/load git room")
    assert await callable_tools(bob) == TOOLS - {"git:log"}
    partly = await do(bob, "/load git")
    assert partly.note == (
        "Not all of its tools can be called: git:log is switched off in this room. Ask alice."
    )


async def test_auto_load_after_an_unload_names_where_it_stays_off(
    alice: Someone, bob: Someone
) -> None:
    await make_git(alice)
    for line in ("/load git", "/unload git"):
        await do(bob, line)
    said = await do(alice, "/namespace set git auto_load on")
    assert said.text == "auto_load of git is now: on."
    assert await callable_tools(bob) == TOOLS
    await do(bob, "/unload git --off")
    await do(alice, "/namespace set git auto_load off")
    told = await do(alice, "/namespace set git auto_load on")
    assert told.text == (
        "auto_load of git is now: on. It is still switched off, fully or partly, on bob."
    )
    assert await callable_tools(bob) == set()
    assert await callable_tools(alice) == TOOLS


async def test_off_is_suggested_only_where_it_switches_off(alice: Someone, bob: Someone) -> None:
    """A room goes before an agent: an off on bob leaves what the room has loaded."""
    await make_git(alice)
    await do(alice, "/load git room")
    await do(bob, "/load git")
    unloaded = render_plain(draw_result(await do(bob, "/unload git")))
    assert "Still on, because they are loaded in this room" in unloaded
    assert "switches it off" not in unloaded
    await do(bob, "/equip me git:log")
    unequipped = render_plain(draw_result(await do(bob, "/unequip me git:log")))
    assert "Still on, because it is loaded in this room: git:log." in unequipped
    assert "switches" not in unequipped


async def test_unload_names_the_tools_that_stay_switched_off(alice: Someone) -> None:
    await make_git(alice)
    await do(alice, "/load git room")
    await do(alice, "/unequip room git:log --off")
    unloaded = render_plain(draw_result(await do(alice, "/unload git room")))
    assert "These tools stay switched off: git:log." in unloaded
    await do(alice, "/load git room")
    assert await callable_tools(alice) == TOOLS - {"git:log"}
    await do(alice, "/equip room git:log")
    unloaded = render_plain(draw_result(await do(alice, "/unload git room")))
    assert "switched off" not in unloaded
