"""Keys of rows, by which a model reads on in what it was sent the start of."""

from __future__ import annotations

import pytest

from sshwarma.world import rows, things
from sshwarma.world.row import Row
from sshwarma.world.stubs import make_stub_key, read_stub
from sshwarma.world.world import World


async def read(world: World, key: str, room_id: str = "lobby") -> str | None:
    return await world.store.read(lambda conn: read_stub(conn, room_id, key))


async def add(world: World, room_id: str, text: str) -> Row:
    return await world.change(
        lambda tx: rows.append_row(tx, room_id, "tool.result", text, author_id=None)
    )


async def test_key_of_a_row_names_its_whole_text(world: World) -> None:
    text = "line\n" * 20_000
    row = await add(world, "lobby", text)
    key = make_stub_key(row.seq)
    assert key == f"stubs.{row.seq}"
    assert await read(world, key) == text


async def test_key_names_rows_of_its_own_room_alone(world: World) -> None:
    await world.change(lambda tx: things.create_thing(tx, "rooms", "room", "den", id="den"))
    secret = await add(world, "den", "secret")
    last = await add(world, "lobby", "open")
    while last.seq <= secret.seq:
        last = await add(world, "lobby", "open")
    assert await read(world, make_stub_key(secret.seq)) != "secret"
    assert await read(world, make_stub_key(secret.seq), "den") == "secret"
    assert await read(world, make_stub_key(last.seq), "den") is None
    assert await read(world, make_stub_key(last.seq + 1)) is None


@pytest.mark.parametrize(
    "key", ["stubs.", "stubs.0", "stubs.-1", "stubs.1 ", "stubs.x", "1", "a.stubs.1", "Stubs.1",
            "stubs.٣", "stubs.1\n", f"stubs.{'9' * 30}"]
)  # fmt: skip
async def test_other_key_names_no_row(world: World, key: str) -> None:
    await add(world, "lobby", "text")
    assert await read(world, key) is None
