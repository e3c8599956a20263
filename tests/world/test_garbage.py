"""Garbage: found, shown, and removed for good only when nothing refers to it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from sshwarma.common.units import DAY_MS
from sshwarma.world import agents, garbage, login_keys, rows, schema, things
from sshwarma.world.world import World
from support.people import Someone, do, everything, make, refused


async def delete(world: World, *ids: str) -> None:
    for thing_id in ids:
        await world.change(
            lambda tx, i=thing_id: things.delete_thing(tx, things.get_live_thing(tx.conn, i))
        )


async def ids_of(world: World) -> set[str]:
    query = text("SELECT id FROM things")
    return set(await world.store.read(lambda c: c.execute(query).scalars().all()))


async def age(world: World, thing_id: str, days: int) -> None:
    query = text("UPDATE things SET deleted_at = deleted_at - :ms WHERE id = :id")
    values = {"ms": days * DAY_MS + 1000, "id": thing_id}
    await world.change(lambda tx: tx.conn.execute(query, values))


async def test_orphans_are_things_in_a_deleted_bag(world: World, alice: Someone) -> None:
    box = await make(world, "lobby", "container", "box", id="box")
    await make(world, box.id, "container", "inner", id="inner")
    await make(world, "inner", "data", "deep", id="deep")
    assert (await do(alice, "/gc orphans")).count == 0, "the world itself is not an orphan"
    await delete(world, "box")
    dry = await do(alice, "/gc orphans")
    assert (dry.found, dry.acted) == ((("inner", "container"),), False)
    acted = await do(alice, "/gc orphans --yes")
    assert (acted.found, acted.acted) == ((("inner", "container"),), True)
    assert [name for name, _ in (await do(alice, "/gc orphans")).found] == ["deep"]
    assert {"box", "inner", "deep"} <= await ids_of(world), "nothing is deleted for good"


async def test_stale_counts_days_since_the_deletion(world: World, alice: Someone) -> None:
    for name in ("new", "old"):
        await make(world, "lobby", "data", name, id=name)
        await delete(world, name)
    await age(world, "old", 8)
    assert (await do(alice, "/gc stale 7")).found == (("old", "data"),)
    assert (await do(alice, "/gc stale 9")).count == 0
    assert (await do(alice, "/gc stale 0")).count == 2


async def test_purge_dry_run_changes_nothing(world: World, alice: Someone) -> None:
    box = await make(world, "lobby", "container", "box", id="box")
    await make(world, box.id, "data", "note", id="note")
    await make(world, "lobby", "data", "kept", id="kept")
    await do(alice, "/equip room kept")
    await delete(world, "note", "box")
    before = await everything(world)
    dry = await do(alice, "/gc purge 0")
    assert (dry.count, dry.acted) == (2, False)
    assert await everything(world) == before
    assert (await do(alice, "/gc purge 0 --yes")).count == 2
    assert not {"box", "note"} & await ids_of(world)
    assert "kept" in await ids_of(world)


async def test_purge_removes_equipment_and_exits(
    world: World, alice: Someone, store_name: str
) -> None:
    await do(alice, "/put note = x")
    await do(alice, "/equip room note")
    await do(alice, "/drop room note")
    assert (await do(alice, "/gc purge 0 --yes")).found == (("note", "data"),)
    if store_name == "sqlite":  # PostgreSQL never lets a reference dangle
        left = await world.store.read(lambda c: c.execute(text("PRAGMA foreign_key_check")).all())
        assert left == []


async def test_purge_keeps_referenced_things(world: World, alice: Someone, bob: Someone) -> None:
    await do(bob, "/create den")  # its log has bob's arrival
    den = bob.room_id
    carol = await world.change(lambda tx: agents.create_agent(tx, "carol"))
    await world.change(lambda tx: login_keys.add_key(tx, carol.id, "SHA256:c", "k"))
    box = await make(world, "lobby", "container", "box", id="box")
    await make(world, box.id, "data", "live", id="live")
    await delete(world, den, carol.id, "box")
    asked = await do(alice, "/gc purge 0 --yes")
    assert asked.count == 0
    assert {name for name, _ in asked.kept} == {"den", "carol", "box"}
    assert {den, carol.id, "box", "live"} <= await ids_of(world)


async def test_purge_keeps_the_bag_of_a_kept_thing(world: World, alice: Someone) -> None:
    outer = await make(world, "lobby", "container", "outer", id="outer")
    await make(world, outer.id, "room", "inner", id="inner")
    await make(world, outer.id, "data", "note", id="note")
    await do(alice, "/look")
    await world.change(lambda tx: rows.append_row(tx, "inner", "chat", "said", author_id=None))
    await delete(world, "note", "inner", "outer")
    await do(alice, "/gc purge 0 --yes")
    assert "note" not in await ids_of(world)
    assert {"outer", "inner"} <= await ids_of(world)


async def test_large_purge_reports_a_bounded_list(world: World, alice: Someone) -> None:
    def many(tx: Any) -> None:
        for n in range(1200):
            thing = things.create_thing(tx, "lobby", "data", f"d{n}")
            things.delete_thing(tx, thing)

    await world.change(many)
    before = len(await ids_of(world))
    asked = await do(alice, "/gc purge 0 --yes")
    assert (asked.count, len(asked.found)) == (1200, 40)
    assert len(await ids_of(world)) == before - 1200


async def test_gc_needs_the_admin_right(bob: Someone) -> None:
    assert "admin right" in (await refused(bob, "/gc orphans")).message


def test_purge_checks_every_foreign_key_to_things() -> None:
    """A table that comes later and refers to things must be named in garbage.py."""
    pointing = {
        key.parent
        for table in schema.metadata.tables.values()
        for key in table.foreign_keys
        if key.column is schema.things.c.id
    }
    taken_with_it = {
        schema.equipped.c.context_id, schema.equipped.c.thing_id, schema.exits.c.from_room_id,
        schema.exits.c.to_room_id, schema.room_members.c.room_id, schema.things.c.parent_id,
        schema.text_versions.c.scope_id,
    }  # fmt: skip
    assert pointing == {*garbage._REFERENCE_COLUMNS} | taken_with_it
