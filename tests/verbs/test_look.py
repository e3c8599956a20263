"""Looking along an exit, and what /examine says of rooms and agents."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, event, update

from sshwarma.common.units import HOUR_MS
from sshwarma.verbs.views import draw_result
from sshwarma.world import agents, things, tokens
from sshwarma.world.ids import now_ms
from sshwarma.world.namespaces import KEYWORDS_KEY, SERVER_KEYWORDS_KEY, read_namespaces
from sshwarma.world.schema import tokens as tokens_table
from support.people import Someone, do, refused, settle


async def shown(who: Someone, line: str) -> str:
    return draw_result(await do(who, line)).plain()


async def make_rooms(alice: Someone) -> None:
    """Alice makes a shop north of the lobby, and a private vault below it."""
    for line in (
        "/create shop",
        "/describe Shelves of tins.",
        "/vibe busy",
        "/put ledger = money",
        "/join lobby",
        "/portal north shop --both",
        "/create vault",
        "/room private",
        "/join lobby",
        "/portal down vault --both",
        "/portal trapdoor vault",
    ):
        await do(alice, line)


async def test_look_along_an_exit_shows_the_next_room(alice: Someone, bob: Someone) -> None:
    await make_rooms(alice)
    await do(bob, "/go north")
    for word in ("north", "n", "NORTH"):
        text = await shown(alice, f"/look {word}")
        assert text.splitlines()[0] == "north → shop"
        assert "Shelves of tins." in text
        assert "Vibe: busy" in text
        assert "Here: bob" in text
        assert "Exits: south → lobby" in text
        assert "/go north goes there." in text
    assert (await do(alice, "/look trapdoor")).name == "vault"
    why = str(await refused(alice, "/look west"))
    assert why == "Unknown exit west. Exits: down, north, trapdoor."


async def test_look_along_an_exit_to_an_invite_room_does_not_look_inside(
    alice: Someone, bob: Someone
) -> None:
    await make_rooms(alice)
    await do(alice, "/go north")
    await do(alice, "/room invite")
    text = await shown(bob, "/look north")
    assert "north → shop  [invite]" in text
    assert "You may not enter it." in text
    assert "south" not in text
    examined = await do(bob, "/examine shop")
    assert examined.contains == ()
    assert "Exits" not in examined.facts
    assert examined.facts["You"] == "may not enter it"


async def test_exits_to_private_rooms_are_hidden_from_others(alice: Someone, bob: Someone) -> None:
    await make_rooms(alice)
    assert "down → vault" in await shown(alice, "/look")
    for line in ("/look", "/exits", "/examine lobby", "/look @alice"):
        assert "vault" not in await shown(bob, line), line
    assert "down → vault" in await shown(alice, "/look"), "each sees its own exits"
    for line in ("/look down", "/go down", "/look d"):
        assert str(await refused(bob, line)) == "Unknown exit down. Exits: north."
    assert "vault" not in str(await refused(bob, "/look trapdoor"))


async def test_examine_of_a_room_says_who_is_there_and_who_may_enter(
    alice: Someone, bob: Someone
) -> None:
    await make_rooms(alice)
    await do(bob, "/go north")
    details = await do(alice, "/examine shop")
    assert details.facts["Here"] == "bob"
    assert details.facts["Access"] == "open: anyone may enter and talk"
    assert details.facts["Exits"] == "south → lobby"
    assert details.facts["Members"] == "alice (owner)"
    assert "build" in details.facts["You"]
    assert [thing.name for thing in details.contains] == ["ledger"]
    text = draw_result(details).plain()
    assert "Location:" not in text
    assert "Status:" not in text


async def test_examine_of_an_agent_says_where_it_is(
    alice: Someone, bob: Someone, qwen: Someone
) -> None:
    await make_rooms(alice)
    facts = (await do(bob, "/examine @alice")).facts
    assert facts["Where"].startswith("lobby, active")
    assert facts["Owns"] == "shop"
    assert (await do(alice, "/examine @alice")).facts["Owns"] == "shop, vault"
    await do(alice, "/join vault")
    assert (await do(bob, "/examine @alice")).facts["Where"].startswith("(private), active")
    await do(alice, "/join lobby")
    await do(alice, "/mute bob 5")
    assert "muted" in (await do(alice, "/examine bob")).facts["In lobby"]


async def test_examine_says_when_somebody_who_is_away_was_last_seen(alice: Someone) -> None:
    world = alice.world
    carol = await world.change(lambda tx: agents.create_agent(tx, "carol"))
    assert (await do(alice, "/examine @carol")).facts["Where"] == "not connected"
    for label, hours in (("old", 5), ("new", 2)):
        token, _ = await world.change(
            lambda tx, label=label: tokens.issue_token(tx, carol.id, label, None, None)
        )
        used = update(tokens_table).where(tokens_table.c.id == token.id)
        at = now_ms() - hours * HOUR_MS
        await world.change(
            lambda tx, used=used, at=at: tx.conn.execute(used.values(last_used_at=at))
        )
    where = (await do(alice, "/examine @carol")).facts["Where"]
    assert where == "not connected, seen 2h ago"


async def test_examine_shows_the_same_keywords_as_the_list_of_namespaces(alice: Someone) -> None:
    await do(alice, "/namespace new mail")
    thing_id = await alice.world.store.read(
        lambda conn: next(space.thing.id for space in read_namespaces(conn) if space.id == "mail")
    )
    found: dict[str, Any] = {KEYWORDS_KEY: None, SERVER_KEYWORDS_KEY: ["imap", "smtp"]}
    await settle(alice.world, lambda tx: things.set_metadata(tx, thing_id, **found))
    assert "Keywords: imap, smtp" in await shown(alice, "/examine mail")
    assert "imap, smtp" in await shown(alice, "/namespace show mail")
    await do(alice, "/namespace set mail keywords letters")
    assert "Keywords: letters" in await shown(alice, "/examine mail")


async def test_history_before_the_first_row_does_not_say_that_the_room_is_silent(
    alice: Someone,
) -> None:
    await do(alice, "hello")
    assert "hello" in await shown(alice, "/history")
    assert await shown(alice, "/history 2 --before 1") == "No row here is older than row 1."
    tools = await shown(alice, "/history --tools --before 9")
    assert tools == "No tool call here is older than row 9."


@pytest.mark.parametrize("empty", ["-", "''", '""'])
async def test_empty_quotes_empty_a_text_of_the_room(alice: Someone, empty: str) -> None:
    for verb in ("vibe", "describe"):
        await do(alice, f"/{verb} loud")
        assert (await do(alice, f"/{verb} {empty}")).text == ""


async def test_help_names_the_context_of_new_rooms(alice: Someone) -> None:
    for verb in ("equip", "unequip"):
        assert "The context defaults is what new rooms begin with" in await shown(
            alice, f"/help {verb}"
        )


async def test_look_reads_no_more_in_a_world_of_many_rooms(alice: Someone) -> None:
    """It read every room, and the members of each."""
    await do(alice, "/portal north lobby")
    asked: list[str] = []

    async def count_queries() -> int:
        alice.world.version += 1  # as any change of structure does
        asked.clear()
        await do(alice, "/look")
        return len(asked)

    def note(*said: Any) -> None:
        asked.append(said[2])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        few = await count_queries()
        for number in range(20):
            await do(alice, f"/create room-{number}")
        many = await count_queries()
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert 0 < many <= few
