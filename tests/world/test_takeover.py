"""One server has a world on PostgreSQL; another takes over from a dead one."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from sshwarma.world import rows
from sshwarma.world.databases import DatabaseUrl, Location
from sshwarma.world.errors import Unavailable
from sshwarma.world.migrate import SchemaError
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.waiting import until

pytestmark = [pytest.mark.postgres, pytest.mark.process]


def named(database: Location, node: str) -> DatabaseUrl:
    assert isinstance(database, DatabaseUrl)
    return DatabaseUrl(database.text, node)


def say(words: str) -> Callable[[Change], int]:
    return lambda tx: rows.append_row(tx, "lobby", "chat", words, author_id=None).seq


async def said(world: World) -> list[str]:
    return [row.content for row in await world.last_rows("lobby", 10)]


def freeze(database: Location, node: str, seconds: int) -> None:
    """Let a server look as if it had been silent."""
    with psycopg.connect(named(database, node).text) as conn:
        conn.execute(
            "UPDATE nodes SET beat_at = beat_at - make_interval(secs => %s) WHERE name = %s",
            (seconds, node),
        )


async def test_second_server_is_refused_while_the_first_lives(database: Location) -> None:
    first = await World.open(named(database, "a"), ())
    with pytest.raises(SchemaError, match=r"Another server uses the world in .*: a, seen 0 s ago"):
        await World.open(named(database, "b"), ())
    await first.change(say("x"))
    await first.close()
    second = await World.open(named(database, "b"), ())
    assert await said(second) == ["x"]
    await second.close()


async def test_dead_server_that_thaws_stores_nothing_and_ends(database: Location) -> None:
    first = await World.open(named(database, "a"), ())
    await first.change(say("1"))
    freeze(database, "a", 60)
    second = await World.open(named(database, "b"), ())
    with pytest.raises(Unavailable, match=r"Another server has taken over.*Nothing was stored"):
        await first.change(say("2"))
    await until(first.store.lost.is_set)
    await second.change(say("3"))
    await first.close()
    assert await said(second) == ["1", "3"]
    await second.close()


async def test_restarted_server_does_not_wait_for_its_earlier_self(database: Location) -> None:
    """The lock of its data directory says that the earlier one is gone."""
    first = await World.open(named(database, "a"), ())
    again = await World.open(named(database, "a"), ())
    with pytest.raises(Unavailable, match="Another server has taken over"):
        await first.change(say("2"))
    await first.close()
    await again.change(say("3"))
    assert await said(again) == ["3"]
    await again.close()
