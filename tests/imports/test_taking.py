"""Steps in a world: once, again, after a change, and beside things of people."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sshwarma.imports.items import Step
from sshwarma.imports.report import ImportReport
from sshwarma.imports.source import read_slbp, read_slop
from sshwarma.imports.taking import choose_person, take_step, try_step
from sshwarma.imports.taking_rooms import make_name
from sshwarma.world import access, rows, things, turns, usage
from sshwarma.world.errors import Conflict, Forbidden, NotFound
from sshwarma.world.store import Change
from sshwarma.world.usage import TokenUsage
from sshwarma.world.world import World
from support.people import Someone, arrive, do, everything, refused
from support.services import services_in
from support.sources import SLOP_SCHEMA, add_messages, make_slbp, make_slop


async def store(world: World, steps: Iterator[Step] | list[Step], **options: str) -> ImportReport:
    """Store all steps; return what they have done."""
    return await _send(world, steps, take_step, **options)


async def _send(
    world: World, steps: Any, work: Any, *, model: str = "slop", person: str = "alice"
) -> ImportReport:
    report = ImportReport()
    for step in steps:
        paths = {item.project: item.project for item in step.items if step.kind == "values"}
        done = await work(world, step, person=person, model=model, thing_bytes=1000, paths=paths)
        report.merge(done.as_json())
    return report


def read(file: Path) -> Iterator[Step]:
    return read_slop(file, ImportReport())


def news(report: ImportReport) -> dict[str, int]:
    """The counts of what is new."""
    counts = report.as_json()["counts"]
    return {what: one["new"] for what, one in counts.items() if one["new"]}


EVERYTHING = {
    "rooms": 3, "turns": 3, "messages": 8, "tool calls": 1, "tool results": 1, "notes": 1,
    "usage rows": 1, "skills": 1,
}  # fmt: skip


async def test_conversation_reads_as_it_was(world: World, alice: Someone, tmp_path: Path) -> None:
    report = await store(world, read(make_slop(tmp_path / "slop.db")))
    assert news(report) == EVERYTHING
    assert report.rooms == {"Garden Plan": "garden-plan", "empty": "empty", "other": "other"}
    room = await world.find_room("garden-plan")
    assert (room.context_size, room.mode) == (3, "private")
    log = await world.store.read(lambda conn: rows.read_tail(conn, room.id, 50))
    assert [row.content for row in log][:2] == ["Where are the walls?", "Let me look."]
    assert [row.seq for row in log] == list(range(1, 10))
    assert [row.status for row in log].count("dropped") == 2
    call, result = log[2], log[3]
    assert (call.kind, result.kind, result.parent_row_id) == ("tool.call", "tool.result", call.id)
    path = await world.store.read(lambda conn: turns.read_path(conn, room.id))
    assert [turn.status for turn in path] == ["completed", "completed"]
    assert [turn.request_row_id for turn in path] == [log[0].id, log[7].id]
    thing = await world.store.read(lambda conn: things.get_live_thing(conn, room.id))
    assert thing.metadata["imported"]["session"] == "Garden Plan"
    slop = world.agents.find_by_name("slop")
    assert slop is not None
    assert (slop.kind, slop.retired, slop.role) == ("model", True, "guest")
    await do(alice, "/join garden-plan")
    await do(alice, "/message restore " + turns.Turn(log[5].turn_id or "", "", "", "").short_id)


async def test_dry_run_says_the_same_and_changes_nothing(
    world: World, alice: Someone, tmp_path: Path
) -> None:
    file = make_slop(tmp_path / "slop.db")
    before = await everything(world)
    report = await _send(world, read(file), try_step)
    assert await everything(world) == before
    assert world.agents.find_by_name("slop") is None
    assert report.as_json()["counts"] == (await store(world, read(file))).as_json()["counts"]


async def test_second_import_stores_nothing(world: World, alice: Someone, tmp_path: Path) -> None:
    file = make_slop(tmp_path / "slop.db")
    await store(world, read(file))
    before = await everything(world)
    report = await store(world, read(file))
    assert news(report) == {}
    counts = report.as_json()["counts"]
    assert {what: one["known"] for what, one in counts.items()} == EVERYTHING
    assert await everything(world) == before


async def test_two_imports_at_once_store_everything_once(
    world: World, alice: Someone, tmp_path: Path
) -> None:
    file = make_slop(tmp_path / "slop.db")
    reports = await asyncio.gather(store(world, read(file)), store(world, read(file)))
    both = [news(report) for report in reports]
    assert {what: sum(one.get(what, 0) for one in both) for what in EVERYTHING} == EVERYTHING


async def test_import_that_was_cut_anywhere_is_completed(
    world: World, alice: Someone, tmp_path: Path
) -> None:
    file = make_slop(tmp_path / "slop.db")
    whole = list(read(file))
    steps = [
        Step(step.kind, (item,), step.rooms) for step in whole for item in step.items
    ]  # a row each
    for cut in range(0, len(steps), 3):
        await store(world, steps[:cut])
        await store(world, iter(()))
    await store(world, read(file))
    room = await world.find_room("garden-plan")
    log = await world.store.read(lambda conn: rows.read_tail(conn, room.id, 50))
    assert [row.content for row in log][3:5] == ["plan.md: walls", "They are in plan.md."]
    assert len(log) == 9
    assert len(await world.rooms()) == 5  # with lobby and home


async def test_later_messages_of_the_source_are_added(
    world: World, alice: Someone, tmp_path: Path
) -> None:
    file = make_slop(tmp_path / "slop.db")
    await store(world, read(file))
    connection = sqlite3.connect(file)
    connection.execute("UPDATE messages SET content = 'edited' WHERE id = 4")
    add = (10, "Garden Plan", "assistant", "One more thing.", "", "completed", 9, "g3")
    new = (11, "Garden Plan", "user", "And now?", "", "completed", 10, "g4")
    add_messages(connection, [add, new])
    report = await store(world, read(file))
    assert news(report) == {"messages": 2, "turns": 1}
    changes = [one for one in report.as_json()["left_out"] if one["what"] == "changes"]
    assert [one["names"] for one in changes] == [["message 4"]]
    assert "keeps what was imported" in changes[0]["reason"]
    room = await world.find_room("garden-plan")
    log = await world.store.read(lambda conn: rows.read_tail(conn, room.id, 50))
    assert [row.content for row in log][-2:] == ["One more thing.", "And now?"]
    assert log[-2].turn_id == log[-3].turn_id
    assert log[4].content == "They are in plan.md."


async def test_same_session_of_another_source_is_another_room(
    world: World, alice: Someone, tmp_path: Path
) -> None:
    await store(world, read(make_slop(tmp_path / "one.db")))
    talk = [(1, "Garden Plan", "user", "Another garden.", "", "completed", 70, "g1")]
    report = await store(world, read(make_slop(tmp_path / "two.db", talk)))
    assert report.rooms["Garden Plan"] == "garden-plan-2"
    assert news(report)["messages"] == 1


async def test_import_for_another_person_brings_nothing_into_a_private_room(
    world: World, alice: Someone, bob: Someone, tmp_path: Path
) -> None:
    file = make_slop(tmp_path / "slop.db")
    await store(world, read(file))
    room = await world.find_room("garden-plan")
    before = await world.store.read(lambda conn: rows.read_tail(conn, room.id, 50))
    connection = sqlite3.connect(file)
    new = (10, "Garden Plan", "user", "For bob alone.", "", "completed", 9, "g4")
    add_messages(connection, [new])
    connection.close()
    report = await store(world, read(file), person="bob")
    assert report.rooms["Garden Plan"] == "garden-plan-2"
    assert await world.store.read(lambda conn: rows.read_tail(conn, room.id, 50)) == before
    assert news(await store(world, read(file), person="bob")) == {}
    assert (await store(world, read(file))).rooms["Garden Plan"] == "garden-plan"


async def test_room_that_was_given_away_gets_nothing_more(
    world: World, alice: Someone, bob: Someone, tmp_path: Path
) -> None:
    file = make_slop(tmp_path / "slop.db")
    await store(world, read(file))
    room = await world.find_room("garden-plan")

    def give_away(tx: Change) -> None:
        access.set_member(tx, room.id, bob.agent.id, created_by=None, role="owner")
        access.set_member(tx, room.id, alice.agent.id, created_by=None, role=None)

    await world.change(give_away)
    assert (await store(world, read(file))).rooms["Garden Plan"] == "garden-plan-2"


async def test_ids_that_are_not_unique_are_left_out_by_name(
    world: World, alice: Someone, tmp_path: Path
) -> None:
    file = make_slop(tmp_path / "slop.db", ())
    connection = sqlite3.connect(file)
    schema = SLOP_SCHEMA.partition(";")[0].replace("INTEGER PRIMARY KEY AUTOINCREMENT", "INTEGER")
    connection.execute("DROP TABLE messages")
    connection.execute(schema)
    talk = [(1, "s", "user", text, "", "completed", 1, "g1") for text in ("one", "again")]
    add_messages(connection, [*talk, (2, "s", "user", "two", "", "completed", 1, "g2")])
    connection.close()
    found = ImportReport()
    assert news(await store(world, read_slop(file, found)))["messages"] == 2
    [left] = [one for one in found.as_json()["left_out"] if one["what"] == "messages"]
    assert (left["names"], left["reason"]) == (
        ["message 1"], "its id is that of another message, which was read"
    )  # fmt: skip


async def test_room_of_people_keeps_its_name(
    world: World, alice: Someone, bob: Someone, tmp_path: Path
) -> None:
    await do(alice, "/create garden-plan")
    talk = [
        (n, session, "user", "x", "", "completed", 1, f"g{n}")
        for n, session in enumerate(
            ("bob", "lobby", "system", "1\x1b[31m", "GARDEN plan", "ä" * 80), 1
        )
    ]
    report = await store(world, read(make_slop(tmp_path / "slop.db", talk)))
    named = report.rooms
    assert named["Garden Plan"] == "garden-plan-2"
    assert named["GARDEN plan"] == "garden-plan-3"
    assert named["bob"] == "bob-2"
    assert named["lobby"] == "lobby-2"
    assert named["system"] == "slop-system"
    assert named["1\x1b[31m"] == "slop-1-31m"
    assert named["ä" * 80] == "slop-2"  # slop is the model


async def test_skill_of_people_keeps_its_text(world: World, alice: Someone, tmp_path: Path) -> None:
    await do(alice, "/skill new wall-expert = Climb.")
    file = make_slop(tmp_path / "slop.db")
    connection = sqlite3.connect(file)
    connection.execute(
        "INSERT INTO skills (name, system_prompt_patch)"
        " VALUES ('2nd Opinion', 'Doubt.'), ('', 'x'), ('system', 'x')"
    )
    connection.commit()
    connection.close()
    report = await store(world, read(file))
    assert report.as_json()["counts"]["skills"] == {"new": 2, "known": 1}
    assert (await do(alice, "/skill show wall-expert")).text == "Climb."
    assert (await do(alice, "/skill show slop-2nd-opinion")).text == "Doubt."
    assert (await do(alice, "/skill show slop-system")).text == "x"
    reasons = [one["reason"] for one in report.as_json()["left_out"]]
    assert "the skill wall-expert has another text here, and stays" in reasons


def test_names_are_those_of_rooms() -> None:
    assert make_name("2024-01 Über") == "slop-2024-01-ber"
    assert make_name("x" * 100) == "x" * 32
    assert make_name("") == "slop"


async def test_text_with_nul_and_escapes_is_stored_and_known(
    world: World, alice: Someone, tmp_path: Path
) -> None:
    talk = [(1, "s", "user", "a\0b\x1b[2J\u202e", "", "completed", 1, "g")]
    file = make_slop(tmp_path / "slop.db", talk)
    await store(world, read(file))
    report = await store(world, read(file))
    assert news(report) == {}
    assert not [one for one in report.as_json()["left_out"] if one["what"] == "changes"]


async def test_budget_of_a_day_does_not_count_what_is_imported(
    world: World, alice: Someone, tmp_path: Path
) -> None:
    """Rows of years ago, stored today, would else stand after those of today."""
    await store(world, read(make_slop(tmp_path / "slop.db")))
    slop = world.agents.find_by_name("slop")
    assert slop is not None
    spent = TokenUsage(30, 12)
    await world.change(lambda tx: usage.record_usage(tx, "lobby", slop.id, None, "gpt", spent))
    file = make_slop(tmp_path / "two.db", [(9, "n", "user", "x", "", "completed", 1, "g")])
    connection = sqlite3.connect(file)
    connection.execute("UPDATE usage SET session_id = 'n', created_at = '2024-05-01 10:00:00'")
    connection.commit()
    connection.close()
    assert news(await store(world, read(file)))["usage rows"] == 1
    used = await world.store.read(lambda conn: usage.read_usage_since(conn, slop.id, "2025-01-01"))
    assert used[0] == 42


async def test_values_of_projects_are_stored_and_never_replaced(
    world: World, alice: Someone, tmp_path: Path
) -> None:
    values = [("/srv/a", "plan", "walls"), ("/srv/a", "long", "x" * 2000), ("/srv/b", "k", "v")]
    folder = make_slbp(tmp_path, values)
    report = await store(world, read_slbp(folder, ImportReport()), model="")
    assert news(report) == {"values": 2, "projects": 2}
    assert [one["names"] for one in report.as_json()["left_out"]] == [["long of /srv/a"]]
    await do(alice, "/mem project set plan --project /srv/a = roof")
    report = await store(world, read_slbp(folder, ImportReport()), model="")
    assert news(report) == {}
    reasons = {one["reason"] for one in report.as_json()["left_out"]}
    assert "the key has another value here, which stays" in reasons
    assert (await do(alice, "/mem project get plan --project /srv/a")).value == "roof"


async def test_import_makes_nobody_the_owner_of_the_project_of_a_room(
    world: World, alice: Someone, bob: Someone, tmp_path: Path
) -> None:
    services_in(world).projects.is_pinned = False
    await do(alice, "/create vault")
    await do(alice, f"/state directory {tmp_path}/room")
    folder = make_slbp(tmp_path, [(f"{tmp_path}/room", "k", "v"), (f"{tmp_path}/bobs", "k", "v")])
    for person in ("bob", "alice"):
        report = await store(world, read_slbp(folder, ImportReport()), model="", person=person)
        assert news(report)["values"] == 1
    members = await do(alice, f"/mem project members --project {tmp_path}/room")
    assert not members.members
    assert isinstance(
        await refused(bob, f"/mem project get k --project {tmp_path}/room"), Forbidden
    )
    assert (await do(bob, f"/mem project get k --project {tmp_path}/bobs")).value == "v"


async def test_names_of_others_are_refused(world: World, alice: Someone, bob: Someone) -> None:
    step = Step("rooms", ())
    options: dict[str, Any] = {"thing_bytes": 1000, "paths": {}}
    with pytest.raises(NotFound):
        await take_step(world, step, person="nobody", model="slop", **options)
    with pytest.raises(Conflict, match="bob is a person"):
        await take_step(world, step, person="alice", model="bob", **options)
    await take_step(world, step, person="alice", model="slop", **options)
    with pytest.raises(Conflict, match="slop is a model"):
        await take_step(world, step, person="slop", model="slop", **options)


async def test_only_owner_is_chosen_and_one_of_several_is_not(world: World, alice: Someone) -> None:
    assert choose_person(world, None) == "alice"
    await arrive(world, "carol", role="owner")
    with pytest.raises(NotFound, match="Several people own this world: alice, carol"):
        choose_person(world, None)
    assert choose_person(world, "carol") == "carol"
