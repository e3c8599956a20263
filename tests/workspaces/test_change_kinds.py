"""What changes and versions did at paths, beside a comparison of whole trees."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection

from sshwarma.workspaces import manifests
from sshwarma.workspaces.change_kinds import find_change_kinds, read_change_kinds
from sshwarma.workspaces.manifests import FULL_EVERY, Manifest, append_manifest, read_tree
from sshwarma.workspaces.tree import EMPTY_FOLDER, FILE_MODE, PROGRAM_MODE, Changes, Entry, Tree
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import settle

ONE, TWO = Entry("1" * 64), Entry("2" * 64)


@pytest.mark.parametrize(
    ("before", "changes", "kinds"),
    [
        ({}, {"a": ONE}, {"a": "added"}),
        ({"a": ONE}, {"a": TWO}, {"a": "changed"}),
        ({"a": Entry("1", FILE_MODE)}, {"a": Entry("1", PROGRAM_MODE)}, {"a": "changed"}),
        ({"a": ONE}, {"a": None}, {"a": "removed"}),
        ({}, {"d": EMPTY_FOLDER}, {"d": "added"}),
        ({"d": EMPTY_FOLDER}, {"d": None}, {"d": "removed"}),
        ({"d": EMPTY_FOLDER}, {"d": ONE}, {"d": "changed"}),
        ({"d": EMPTY_FOLDER}, {"d": None, "d/a": ONE}, {"d": "changed", "d/a": "added"}),
        ({"d": EMPTY_FOLDER}, {"d": None, "d/e/a": ONE}, {"d": "changed", "d/e/a": "added"}),
        ({"d": EMPTY_FOLDER}, {"d": None, "d/e": EMPTY_FOLDER}, {"d": "changed", "d/e": "added"}),
        ({"d": EMPTY_FOLDER}, {"d": None, "d-e/a": ONE}, {"d": "removed", "d-e/a": "added"}),
        ({"d/a": ONE}, {"d": EMPTY_FOLDER, "d/a": None}, {"d": "changed", "d/a": "removed"}),
        ({"d/a": ONE}, {"d": TWO, "d/a": None}, {"d": "added", "d/a": "removed"}),
        ({"d": ONE}, {"d": None, "d/a": ONE}, {"d": "removed", "d/a": "added"}),
        ({"e/a": ONE}, {"d": EMPTY_FOLDER, "e/a": None}, {"d": "added", "e/a": "removed"}),
    ],
)
def test_kind_says_whether_something_is_still_at_the_path(
    before: Tree, changes: Changes, kinds: dict[str, str]
) -> None:
    assert find_change_kinds(before, changes) == kinds
    for path in changes:  # what the tree has elsewhere makes no difference
        here = {path: before[path]} if path in before else {}
        assert find_change_kinds(here, changes, [path]) == {path: kinds[path]}


def append(tx: Change, changes: Changes) -> Manifest:
    before = read_tree(tx.conn, manifests.read_active_id(tx.conn, "lobby"))
    return append_manifest(tx, "lobby", before, changes, source="edit")


async def read_kinds(world: World, version: Manifest) -> dict[str, str]:
    def read(conn: Connection) -> dict[str, str]:
        changes = manifests.read_changed_paths(conn, version)
        return dict(read_change_kinds(conn, version, changes, tuple(changes)))

    return await world.store.read(read)


async def test_kinds_agree_with_the_trees_of_every_version(world: World) -> None:
    """Also across those that store all entries."""
    for number in range(2 * FULL_EVERY + 5):
        changes: dict[str, Entry | None] = {f"f{number % 7}": Entry(f"{number:064x}", size=number)}
        if number % 5 == 4:
            changes[f"f{(number + 2) % 7}"] = None
        version = await settle(world, partial(append, changes=changes))

        def read(conn: Connection, version: Manifest = version) -> tuple[Any, Any]:
            return read_tree(conn, version.parent_id), manifests.read_changed_paths(conn, version)

        before, changed = await world.store.read(read)
        assert await read_kinds(world, version) == {
            path: "removed" if entry is None else "changed" if path in before else "added"
            for path, entry in changed.items()
        }


@pytest.mark.parametrize(
    ("before", "changes", "kinds"),
    [
        (
            {"docs": EMPTY_FOLDER},
            {"docs": None, "docs/a": Entry("a" * 64)},
            {"docs": "changed", "docs/a": "added"},
        ),
        ({"docs": EMPTY_FOLDER}, {"docs": None}, {"docs": "removed"}),
        (
            {"docs/a": Entry("a" * 64)},
            {"docs": EMPTY_FOLDER, "docs/a": None},
            {"docs": "changed", "docs/a": "removed"},
        ),
        (
            {"docs": Entry("b" * 64)},
            {"docs": None, "docs/a": Entry("a" * 64)},
            {"docs": "removed", "docs/a": "added"},
        ),
    ],
)
async def test_folder_that_gets_its_first_file_is_not_removed(
    world: World, before: Changes, changes: Changes, kinds: dict[str, str]
) -> None:
    await settle(world, partial(append, changes=before))
    version = await settle(world, partial(append, changes=changes))
    assert await read_kinds(world, version) == kinds


async def test_path_that_comes_back_is_added(world: World) -> None:
    for entry in (Entry("a" * 64), None, Entry("b" * 64)):
        version = await settle(world, partial(append, changes={"a": entry}))
    assert await read_kinds(world, version) == {"a": "added"}
