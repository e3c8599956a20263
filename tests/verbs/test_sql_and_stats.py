"""/sql, /stats and finding old words: what they give, and to whom."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from sshwarma.common.limits import MAX_SHOWN_ANSWER_LINES
from sshwarma.terminal.render import render_plain
from sshwarma.tools.call import Tools
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.log_rows import MAX_MATCH_SNIPPET_CHARACTERS, make_snippet
from sshwarma.verbs.tool_provider import VerbToolProvider
from sshwarma.verbs.views import draw_result, dump_json
from sshwarma.world import calls, equipment, rows, things, turns, usage
from sshwarma.world.errors import Forbidden, Invalid, NotFound
from sshwarma.world.reader import PERSON
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn
from sshwarma.world.world import World
from support.people import Someone, do, refused


async def spent(
    world: World, room_id: str, who: Someone, model: str, tokens: tuple[int, int], **more: object
) -> Turn:
    """A turn that has used some tokens and called a tool once, in vain."""

    def work(tx: Change) -> Turn:
        turn = turns.open_turn(tx, room_id, who.id, None)
        rows.append_row(tx, room_id, "chat", f"words of {model}", author_id=who.id, turn_id=turn.id)
        estimated, cost = bool(more.get("estimated")), more.get("cost")
        assert cost is None or isinstance(cost, float)
        usage.record_usage(
            tx, room_id, who.id, turn.id, model, usage.TokenUsage(*tokens, estimated, cost)
        )
        call = calls.record_call_start(
            tx, room_id, who.id, "a:b", {}, turn_id=turn.id, parent_row_id=None
        )
        calls.record_call_end(tx, call, "error", "broken", None, 0.1)
        return turn

    return await world.change(work)


async def drop(world: World, turn: Turn) -> None:
    values = {"id": turn.id}
    query = text("UPDATE turns SET status = 'dropped' WHERE id = :id")
    await world.change(lambda tx: tx.conn.execute(query, values))


def shown(result: object) -> str:
    return render_plain(draw_result(result))


# -- sql


@pytest.mark.process
async def test_sql_result_is_a_table_that_reports_omissions(bob: Someone, store_name: str) -> None:
    repeat = "repeat('x', {})" if store_name == "postgres" else "printf('%.*c', {}, 'x')"
    await do(bob, "two\nlines and\ttabs")
    screen = shown(await do(bob, "/sql SELECT role, NULL AS empty, content FROM messages"))
    assert screen.split("\n") == [
        "  role  empty  content",
        "  user  NULL   two lines and tabs",
        "1 row.",
    ]
    assert (
        shown(await do(bob, "/sql SELECT role FROM messages WHERE 1 = 0"))
        == "0 rows. Columns: role."
    )
    numbers = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t)"
    query = f"{numbers} SELECT x, {repeat.format(2000)} FROM t LIMIT 300"
    screen = shown(await do(bob, f"/sql {query}"))
    assert "more not shown" in screen and "cut at 1000 characters: substr() reads on" in screen
    long = shown(await do(bob, f"/sql SELECT {repeat.format(100)}, 1"))
    assert "x" * 59 + "…  1" in long
    assert dump_json(await do(bob, "/sql SELECT 1 AS one, 'x' AS two")) == {
        "columns": ["one", "two"], "rows": [[1, "x"]], "more": 0, "uncounted": False,
        "cut_cells": 0,
    }  # fmt: skip


@pytest.mark.process
async def test_sql_hides_rooms_that_the_caller_may_not_enter(
    alice: Someone, bob: Someone, guest: Someone
) -> None:
    await do(bob, "/create den")
    await do(bob, "/room private")
    await do(bob, "treasure")
    await do(bob, "/tell gast just for you")
    query = "/sql SELECT content FROM messages WHERE role = 'user' ORDER BY id"
    assert (await do(guest, query)).rows == (("just for you",),)
    assert (await do(bob, query)).rows == (("treasure",), ("just for you",))
    assert (await do(alice, query)).rows == (("treasure",),)  # may enter, and has no message
    await do(bob, "/room member gast")
    assert len((await do(guest, query)).rows) == 2
    await do(bob, "/room remove gast")
    assert len((await do(guest, query)).rows) == 1


@pytest.mark.process
async def test_sql_by_a_banned_agent_is_refused(alice: Someone, bob: Someone) -> None:
    await do(alice, "/create den")
    await do(bob, "/join den")
    await do(alice, "treasure")
    await do(alice, "/ban bob 5 spam")
    assert isinstance(await refused(bob, "/sql SELECT 1"), Forbidden)
    bob.connection.room_id = "lobby"
    found = await do(bob, "/sql SELECT content FROM messages WHERE content = 'treasure'")
    assert found.rows == ()


@pytest.mark.process
async def test_sql_error_points_into_the_line(bob: Someone) -> None:
    line = "/sql   SELECT nam FROM tools"
    refusal = await refused(bob, line)
    assert refusal.span is not None
    assert line[slice(*refusal.span)] == "nam"
    with pytest.raises(Invalid) as caught:
        await invoke(bob.caller, "sql", {"text": "SELECT nam FROM tools"})
    assert caught.value.span is None  # there is no line


@pytest.mark.process
async def test_sql_tool_must_be_equipped_and_uses_the_rights_of_its_caller(
    world: World, alice: Someone, qwen: Someone
) -> None:
    tools = Tools(world, {"internal": VerbToolProvider(), "global": VerbToolProvider()})
    with pytest.raises(NotFound, match="not equipped"):
        await tools.call(qwen.caller, "sshwarma:sql", {"text": "SELECT 1"})
    await do(alice, "/equip room sshwarma:sql,schema")
    await do(alice, "/create vault")
    await do(alice, "/room private")
    await do(alice, "treasure")
    outcome = await tools.call(
        qwen.caller, "sshwarma__sql", {"text": "SELECT name FROM chats ORDER BY 1"}
    )
    assert outcome.structured["rows"] == [["home"], ["lobby"]]
    assert "lobby" in outcome.text
    failed = await tools.call(qwen.caller, "sshwarma:sql", {"text": "SELECT * FROM tokens"})
    assert failed.ending == "error" and "tokens is not readable" in failed.text
    described = await tools.call(qwen.caller, "sshwarma:schema", {"name": "messages"})
    assert "group_id" in described.text


# -- stats


async def test_stats_are_summed_by_model(world: World, alice: Someone, qwen: Someone) -> None:
    assert shown(await do(alice, "/stats")) == "No model has answered in lobby yet."
    await spent(world, "lobby", qwen, "big", (100, 20), cost=0.5)
    await spent(world, "lobby", qwen, "big", (10, 2), estimated=True)
    undone = await spent(world, "lobby", qwen, "small", (1, 1), cost=0.25)
    await drop(world, undone)
    found = await do(alice, "/stats")
    assert [(use.model, use.agents, use.answers, use.total_tokens) for use in found.spent] == [
        ("big", ("qwen",), 2, 132), ("small", ("qwen",), 1, 2),
    ]  # fmt: skip
    big, small = found.spent
    assert (big.prompt_tokens, big.completion_tokens, big.estimated) == (110, 22, 1)
    assert (big.cost, big.priced, small.dropped) == (0.5, 1, 1)
    total = found.total
    assert (total.answers, total.total_tokens, total.cost, total.dropped) == (3, 134, 0.75, 1)
    assert [(one.tool, one.calls, one.errors) for one in found.tools] == [("a:b", 3, 3)]
    assert (found.calls, found.errors) == (3, 3)
    assert found.since is not None and found.since <= found.until
    screen = shown(found)
    for words in (
        "Used in lobby:", "2 answers", "110 in", "22 out", "132 tokens", "$0.5000 and 1 unpriced",
        "1 estimated", "1 dropped", "total", "3 answers", "Tool calls: 3, 3 errors", "a:b",
    ):  # fmt: skip
        assert words in screen
    assert {"    1 estimated", "    1 dropped"} <= set(screen.split("\n"))


async def test_answer_of_several_requests_is_one(
    world: World, alice: Someone, qwen: Someone
) -> None:
    turn = await spent(world, "lobby", qwen, "big", (100, 20))
    spending = usage.TokenUsage(1, 2, False, None)
    await world.change(
        lambda tx: usage.record_usage(tx, "lobby", qwen.id, turn.id, "big", spending)
    )
    found = await do(alice, "/stats")
    assert (found.total.answers, found.total.requests, found.total.total_tokens) == (1, 2, 123)
    screen = shown(found)
    assert "1 answer " in screen and "    2 requests" in screen.split("\n")


async def test_stats_cover_one_model_or_every_room(
    world: World, alice: Someone, bob: Someone, qwen: Someone
) -> None:
    await do(bob, "/create den")
    await spent(world, "lobby", qwen, "big", (100, 20))
    await spent(world, bob.room_id, alice, "other", (1, 2), cost=1.0)
    assert [use.model for use in (await do(bob, "/stats")).spent] == ["other"]
    assert (await do(bob, "/stats @qwen")).spent == ()
    every = await do(alice, "/stats --all")
    assert [(use.room, use.total_tokens) for use in every.rooms] == [("den", 3), ("lobby", 120)]
    assert (every.total.answers, every.total.total_tokens) == (2, 123)
    assert "By room:" in shown(every)
    one = await do(alice, "/stats @qwen --all")
    assert (one.of, one.total.total_tokens, one.calls) == ("qwen", 120, 1)
    refusal = await refused(bob, "/stats --all")
    assert isinstance(refusal, Forbidden) and "admin right" in refusal.message


async def test_stats_name_the_active_skills(world: World, alice: Someone, qwen: Someone) -> None:
    def learn(tx: Change) -> None:
        for number, name in enumerate(("tidy", "terse", "loud"), 1):
            skill = things.create_thing(
                tx, "skills", "data", f"skill:{name}",
                metadata={"role": "skill", "number": number, "activations": number}
                if name != "terse" else {"role": "skill", "number": number},
            )  # fmt: skip
            if name != "loud":
                equipment.equip_things(tx, "lobby" if name == "tidy" else qwen.id, [skill])
        plain_data = things.create_thing(tx, "lobby", "data", "note")
        equipment.equip_things(tx, "lobby", [plain_data])

    await world.change(learn)
    found = await do(alice, "/stats")
    assert [(one.name, one.activations) for one in found.skills] == [("tidy", 1)]
    assert "active, activated 1 time" in shown(found)
    mine = await do(alice, "/stats @qwen")
    assert [(one.name, one.activations) for one in mine.skills] == [("terse", None), ("tidy", 1)]
    every = await do(alice, "/stats --all")
    assert [(one.name, one.active) for one in every.skills] == [
        ("loud", 0), ("terse", 1), ("tidy", 1),
    ]  # fmt: skip
    assert "not active, activated 3 times" in shown(every)


@pytest.mark.process
async def test_stats_and_sql_give_the_same_numbers(
    world: World, alice: Someone, qwen: Someone
) -> None:
    for tokens in ((5, 6), (7, 8)):
        await spent(world, "lobby", qwen, "m", tokens, cost=0.1)
    found = (await do(alice, "/stats")).spent[0]
    asked = await do(
        alice,
        "/sql SELECT count(*), sum(prompt_tokens), sum(completion_tokens), sum(total_tokens),"
        " sum(cost) FROM usage WHERE session_id = 'lobby'",
    )
    assert asked.rows == (
        (found.answers, found.prompt_tokens, found.completion_tokens, found.total_tokens,
         found.cost),
    )  # fmt: skip


# -- finding


async def texts(who: Someone, line: str) -> list[str]:
    return [entry.text for entry in (await do(who, line)).entries]


async def test_search_finds_undone_answers_only_on_request(
    world: World, alice: Someone, qwen: Someone
) -> None:
    await do(alice, "needle before")

    def answer(tx: Change) -> Turn:
        request = rows.append_row(tx, "lobby", "chat", "@qwen needle?", author_id=alice.id)
        turn = turns.open_turn(tx, "lobby", qwen.id, alice.id)
        query = text("UPDATE turns SET request_row_id = :row WHERE id = :id")
        tx.conn.execute(query, {"row": request.id, "id": turn.id})
        rows.append_row(tx, "lobby", "chat", "needle!", author_id=qwen.id, turn_id=turn.id)
        rows.append_row(tx, "lobby", "chat", "hidden needle", author_id=None, status="dropped")
        return turn

    turn = await world.change(answer)
    for search in ("/search", "/history search"):
        assert await texts(alice, f"{search} needle") == [
            "needle!", "@qwen needle?", "needle before",
        ]  # fmt: skip
    await drop(world, turn)
    for search in ("/search", "/history search"):
        assert await texts(alice, f"{search} needle") == ["needle before"]
        assert len(await texts(alice, f"{search} --dropped needle")) == 4
    assert len(await texts(alice, "/history search needle --dropped")) == 4
    found = await do(alice, "/search --dropped needle")
    assert [(entry.dropped, entry.turn) for entry in found.entries] == [
        (True, None), (True, turn.id), (True, turn.id), (False, None),
    ]  # fmt: skip


async def test_search_finds_old_turns_in_readable_rooms(
    world: World, alice: Someone, bob: Someone, qwen: Someone
) -> None:
    await do(bob, "/create den")
    await do(bob, "/room private")
    await do(bob, "needle in the den")
    for model in "abcdefgh":
        await spent(world, "lobby", qwen, f"needle {model}", (1, 1))
    assert await texts(qwen, '/history search "needle a"') == ["words of needle a"]
    assert len(await texts(qwen, "/search needle")) == 8
    assert (await texts(bob, "/history search needle"))[-1] == "needle in the den"


async def test_search_does_not_match_earlier_searches(
    world: World, alice: Someone, qwen: Someone
) -> None:
    await do(alice, "a needle")
    tools = Tools(world, {"internal": VerbToolProvider(), "global": VerbToolProvider()})
    for _ in range(2):
        found = await tools.call(qwen.caller, "global:search", {"text": "needle"})
        assert [entry["text"] for entry in found.structured["entries"]] == ["a needle"]


async def test_extra_words_after_a_number_are_refused(alice: Someone) -> None:
    assert "Unexpected word words." in (await refused(alice, "/history 20 words")).message
    assert "/search needs TEXT" in (await refused(alice, "/history search")).message
    assert "must contain a word" in (await refused(alice, "/history search !!")).message


@pytest.mark.parametrize(
    ("before", "after"), [(0, 0), (0, 900), (900, 0), (900, 900), (40, 900), (900, 40)]
)
def test_snippet_shows_the_matched_words(before: int, after: int) -> None:
    cut = make_snippet("x" * before + " Needle " + "y" * after, 'a "needle')
    assert "Needle" in cut
    assert len(cut) <= MAX_MATCH_SNIPPET_CHARACTERS + 1
    assert cut.startswith("…") == (before > MAX_MATCH_SNIPPET_CHARACTERS)
    assert cut.endswith("…") == (after > MAX_MATCH_SNIPPET_CHARACTERS)


async def test_a_search_says_whether_more_rows_match(alice: Someone) -> None:
    for number in range(3):
        await do(alice, f"relay box {number}")
    some = await do(alice, "/search relay --n 2")
    assert (len(some.entries), some.more) == (2, True)
    screen = shown(some).split("\n")
    assert screen[0] == "The newest 2 matches:"
    assert "More rows match; a larger n shows them." in screen
    every = await do(alice, "/search relay --n 3")
    assert (len(every.entries), every.more) == (3, False)
    assert shown(every).startswith("Found 3, newest first:\n")
    assert (await refused(alice, "/search ..")).hint_for(PERSON) == (
        'Use words such as relay box, or "exact words".'
    )


async def test_history_cuts_long_rows_and_row_shows_them_whole(alice: Someone) -> None:
    text = "-\n" * (MAX_SHOWN_ANSWER_LINES + 100) + "end"
    said = await do(alice, "/say hello")
    await alice.world.change(
        lambda tx: rows.append_row(tx, alice.room_id, "chat", text, author_id=alice.id)
    )
    page = await do(alice, "/history")
    assert page.entries[-1].text == dump_json(page)["entries"][-1]["text"] == text
    lines = draw_result(page).plain().splitlines()
    assert len(lines) <= MAX_SHOWN_ANSWER_LINES + len(page.entries)
    assert lines[-1].endswith(f" more characters: /history --row {said.seq + 1}")
    whole = await do(alice, f"/history --row {said.seq + 1}")
    assert draw_result(whole).plain().endswith("\n        end")
    assert "whole" not in dump_json(whole)


async def test_own_long_message_is_cut_for_its_sender(alice: Someone, bob: Someone) -> None:
    text = "-\n" * (MAX_SHOWN_ANSWER_LINES + 100) + "end"
    for command, call in (("/say", "/history --row"), ("/tell bob", "/history @bob --row")):
        sent = await do(alice, f"{command} {text}")
        assert sent.text == text
        lines = draw_result(sent).plain().splitlines()
        assert len(lines) == MAX_SHOWN_ANSWER_LINES + 1
        assert lines[-1].endswith(f" more characters: {call} {sent.seq}")
        whole = await do(alice, f"{call} {sent.seq}")
        assert whole.entries[0].text == text
