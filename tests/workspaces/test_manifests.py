"""Manifests: versions of a room's files, as the database and its view have them."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine, text

from sshwarma.workspaces import manifests
from sshwarma.workspaces.manifests import (
    FULL_EVERY,
    Manifest,
    NothingChanges,
    append_manifest,
    read_tree,
)
from sshwarma.workspaces.tree import EMPTY_FOLDER, Changes, Entry, Tree, apply_changes
from sshwarma.world.errors import NotFound
from sshwarma.world.schema import metadata
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import Someone, do, settle


def append(tx: Change, changes: Changes, **values: Any) -> Manifest:
    before = read_tree(tx.conn, manifests.read_active_id(tx.conn, "lobby"))
    return append_manifest(tx, "lobby", before, changes, **({"source": "edit"} | values))


def read_view(conn: Connection, manifest_id: str) -> Any:
    query = text("SELECT * FROM workspace_manifests WHERE id = :id")
    return conn.execute(query, {"id": manifest_id}).mappings().one()


async def test_versions_are_read_back_and_the_view_agrees(world: World) -> None:
    """Also across those that store all entries."""
    tree: Tree = {}
    made: list[tuple[str, Tree]] = []
    for number in range(2 * FULL_EVERY + 5):
        changes: dict[str, Entry | None] = {f"f{number % 7}": Entry(f"{number:064x}", size=number)}
        if number % 5 == 4:
            changes[f"f{(number + 2) % 7}"] = None
        tree = apply_changes(tree, changes)
        manifest = await settle(world, partial(append, changes=changes))
        made.append((manifest.id, tree))
        assert (manifest.entry_count, manifest.total_bytes) == (
            len(tree),
            sum(entry.size for entry in tree.values()),
        )

    def check(conn: Connection) -> None:
        for id, expected in made:
            assert read_tree(conn, id) == expected
            files = {path: entry.sha256 for path, entry in expected.items()}
            assert json.loads(read_view(conn, id)["files"]) == files
        kept = conn.execute(text("SELECT count(*) FROM manifest_entries")).scalar_one()
        assert kept < 3 * len(made) + 3 * 7
        assert manifests.read_active_id(conn, "lobby") == made[-1][0]

    await world.store.read(check)


async def test_chain_source_and_active_version_are_in_the_views(world: World) -> None:
    first = await settle(world, lambda tx: append(tx, {"a": Entry("1" * 64, size=3)}))
    second = await settle(
        world, lambda tx: append(tx, {"b": Entry("2" * 64)}, source="tool_run", source_ref="call-1")
    )

    def check(conn: Connection) -> None:
        seen = read_view(conn, second.id)
        assert seen["parent_id"] == first.id
        assert (seen["source"], seen["source_ref"]) == ("tool_run", "call-1")
        assert seen["chat_id"] == "lobby"
        query = text("SELECT active_manifest_id FROM chats WHERE id = 'lobby'")
        assert conn.execute(query).scalar_one() == second.id

    await world.store.read(check)


async def test_empty_folders_and_links_are_no_files_of_the_view(world: World) -> None:
    made = await settle(
        world,
        lambda tx: append(
            tx,
            {"a": Entry("1" * 64), "d": EMPTY_FOLDER, "l": Entry("2" * 64, 0o120000)},
        ),
    )

    def check(conn: Connection) -> None:
        assert json.loads(read_view(conn, made.id)["files"]) == {"a": "1" * 64}
        assert set(read_tree(conn, made.id)) == {"a", "d", "l"}

    await world.store.read(check)


async def test_change_that_changes_nothing_is_refused(world: World) -> None:
    with pytest.raises(NothingChanges):
        await settle(world, lambda tx: append(tx, {}))


async def test_version_is_found_by_the_end_of_its_id(world: World) -> None:
    made = await settle(world, lambda tx: append(tx, {"a": Entry("1" * 64)}))

    def check(conn: Connection) -> None:
        assert manifests.find_manifest(conn, "lobby", made.short_id.upper()) == made
        for name in ("", "zzzz", "%%%%", made.id[-3:]):
            with pytest.raises(NotFound):
                manifests.find_manifest(conn, "lobby", name)
        with pytest.raises(NotFound):
            manifests.find_manifest(conn, "home", made.id)

    await world.store.read(check)


@pytest.mark.process  # a question runs in a process of its own
async def test_members_alone_see_versions_in_reports(
    world: World, alice: Someone, guest: Someone
) -> None:
    for line in ("/create vault", "/room private", "/file put secret.txt = x"):
        await do(alice, line)
    for table in ("manifests", "manifest_entries", "workspace_manifests"):
        seen = await do(alice, f"/sql SELECT count(*) FROM {table}")
        assert seen.rows[0][0] == 1
        hidden = await do(guest, f"/sql SELECT count(*) FROM {table}")
        assert hidden.rows[0][0] == 0


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.sampled_from([None, "1", "2"]),
                                min_size=1), max_size=8))  # fmt: skip
def test_reading_equals_applying_every_change(steps: list[dict[str, str | None]]) -> None:
    """The query alone, on a database without a world."""
    engine = create_engine("sqlite://")
    metadata.create_all(engine)
    tree: dict[str, Entry] = {}
    with engine.connect() as conn:
        parent = None
        for number, step in enumerate(steps):
            changes = {path: Entry(sha, size=1) if sha else None for path, sha in step.items()}
            tree = apply_changes(tree, changes)
            full = number % 3 == 0
            conn.execute(
                metadata.tables["manifests"].insert(),
                [{"id": str(number), "room_id": "r", "parent_id": parent, "is_full": int(full),
                  "steps": number % 3, "entry_count": 0, "total_bytes": 0, "created_at": "",
                  "source": "edit"}],
            )  # fmt: skip
            stored = tree if full else changes
            for path, entry in stored.items():
                conn.execute(
                    metadata.tables["manifest_entries"].insert(),
                    [{"manifest_id": str(number), "path": path, "mode": entry.mode if entry else 0,
                      "sha256": entry.sha256 if entry else None, "size": 1 if entry else 0}],
                )  # fmt: skip
            parent = str(number)
            assert read_tree(conn, parent) == tree
    engine.dispose()
