"""The mode `--units=twice`: what it finds, and what a first run leaves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import Connection

from sshwarma.world import rows, things
from sshwarma.world.errors import WorldError
from sshwarma.world.ids import LOBBY_ID
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.rows import read_rows_after
from support.units_twice import run_twice

pytestmark = pytest.mark.units_once("it runs units twice itself")


def say(tx: Change, text: str) -> int:
    return rows.append_row(tx, LOBBY_ID, "chat", text, author_id=None).seq


async def read_log(world: World) -> list[tuple[int, str]]:
    def read(conn: Connection) -> list[tuple[int, str]]:
        return [(row.seq, row.content) for row in read_rows_after(conn, LOBBY_ID, 0, 100)]

    return await world.store.read(read)


async def test_first_run_leaves_nothing(world: World) -> None:
    runs: list[Change] = []

    def work(tx: Change) -> int:
        runs.append(tx)
        things.create_thing(tx, "rooms", "room", "den")
        say(tx, "one")
        return say(tx, "two")

    told: list[str] = []
    before = await read_log(world)
    newest = await world.store.write(run_twice(world.store, work, told.append))
    first, second = runs
    assert [len(first.events), told] == [len(second.events), []]
    assert await read_log(world) == [*before, (newest - 1, "one"), (newest, "two")]
    assert await world.store.write(lambda tx: say(tx, "three")) == newest + 1


async def test_unit_that_raises_twice_is_refused(world: World) -> None:
    def work(tx: Change) -> None:
        say(tx, "lost")
        raise WorldError("no")

    told: list[str] = []
    before = await read_log(world)
    with pytest.raises(WorldError, match="no"):
        await world.store.write(run_twice(world.store, work, told.append))
    assert (told, await read_log(world)) == ([], before)


class Twice(Exception):
    """Raised by the second run alone."""


def writes_more(tx: Change, earlier: list[str]) -> None:
    for name in earlier:
        things.create_thing(tx, "rooms", "data", name)


def says_another(tx: Change, earlier: list[str]) -> None:
    say(tx, f"number {len(earlier)}")


def raises(tx: Change, earlier: list[str]) -> None:
    if earlier:
        raise Twice


def raises_no_more(tx: Change, earlier: list[str]) -> None:
    if not earlier:
        raise Twice


def answers_otherwise(tx: Change, earlier: list[str]) -> bool:
    return bool(earlier)


@pytest.mark.parametrize(
    "unit", [writes_more, says_another, raises, raises_no_more, answers_otherwise]
)
async def test_second_run_that_differs_is_found(
    world: World, unit: Callable[[Change, list[str]], object]
) -> None:
    earlier: list[str] = []

    def work(tx: Change) -> object:
        try:
            return unit(tx, earlier)
        finally:
            earlier.append("made-before")

    told: list[str] = []
    before = await read_log(world)
    with pytest.raises(AssertionError, match="cannot be run twice"):
        await world.store.write(run_twice(world.store, work, told.append))
    (sentence,) = told
    assert "test_units_twice.py" in sentence
    assert await read_log(world) == before
