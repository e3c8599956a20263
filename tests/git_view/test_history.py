"""What decides the ids of commits: the names of authors, and messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from sshwarma.git.history import encode_versions, read_history, write_message
from sshwarma.workspaces import manifests
from sshwarma.workspaces.manifests import Manifest, Source, append_manifest, read_tree
from sshwarma.workspaces.tree import Changes, Entry
from sshwarma.world import agents
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import Someone, settle

FILE = Entry("f" * 64)


def append(tx: Change, changes: Changes, author_id: str | None) -> Manifest:
    before = read_tree(tx.conn, manifests.read_active_id(tx.conn, "lobby"))
    return append_manifest(tx, "lobby", before, changes, source="edit", author_id=author_id)


async def add(world: World, number: int, author_id: str | None) -> Manifest:
    changes = {f"f{number}": Entry(f"{number:064x}", size=number)}
    return await settle(world, partial(append, changes=changes, author_id=author_id))


async def read(world: World, known: Mapping[str, str]) -> list[dict[str, Any]]:
    history = await read_history(world, "lobby", known)
    return [json.loads(line) async for line in encode_versions(world, history)]


async def test_versions_are_read_from_the_known_one_on(world: World, bob: Someone) -> None:
    made = [await add(world, number, bob.id) for number in range(60)]
    found = await read(world, {})
    assert [version["id"] for version in found] == [version.id for version in made]
    assert found[50]["changes"] == [["f50", f"{50:064x}", 0o100644]]  # one that stores all entries
    history = await read_history(world, "lobby", {made[57].id: "x"})
    assert history.base_id == made[57].id
    assert [version.id for version in history.versions] == [made[58].id, made[59].id]
    assert history.active_id == made[59].id


async def test_empty_version_with_which_a_call_began_is_no_commit(
    world: World, bob: Someone
) -> None:
    beginning = await settle(
        world,
        lambda tx: manifests.append_beginning(tx, "lobby", "c1", bob.id),
    )
    assert beginning.is_beginning
    history = await read_history(world, "lobby", {})
    assert (history.active_id, history.base_id, list(history.versions)) == (None, None, [])
    made = await add(world, 1, bob.id)
    assert made.parent_id == beginning.id
    (found,) = await read(world, {})
    assert (found["id"], found["changes"]) == (made.id, [["f1", f"{1:064x}", 0o100644]])


async def test_names_stay_when_an_agent_is_renamed(world: World, bob: Someone) -> None:
    await add(world, 1, bob.id)
    await add(world, 2, None)
    before = await read(world, {})
    assert [version["author"] for version in before] == ["bob", "sshwarma"]
    await world.change(lambda tx: agents.rename_agent(tx, bob.id, "robert"))
    assert await read(world, {}) == before
    await add(world, 3, bob.id)
    after = await read(world, {})
    assert [version["author"] for version in after] == ["bob", "sshwarma", "robert"]
    assert await read(world, {}) == after


@pytest.mark.parametrize(
    ("source", "reference", "changes", "expected"),
    [
        ("edit", None, {"a": FILE}, "Edit a\n\nVersion: v1\nSource: edit\n"),
        (
            "tool_run",
            "c1",
            {"b": FILE, "a": None},
            "Change a, b\n\nVersion: v1\nSource: tool_run c1\n",
        ),
        (
            "user_upload",
            None,
            dict.fromkeys("dcbae", FILE),
            "Upload a, b, c and 2 more\n\nVersion: v1\n",
        ),
        ("branch", "t1", {"x" * 70: FILE}, f"Branch {'x' * 60}\n"),
        ("git_push", "h", {}, "Push nothing\n"),
        (
            "user_upload",
            None,
            dict.fromkeys("dcbae"),
            "Remove a, b, c and 2 more\n\nVersion: v1\nSource: user_upload\n",
        ),
        ("edit", None, {"a": None}, "Remove a\n\nVersion: v1\nSource: edit\n"),
    ],
)
def test_message_names_paths_and_what_made_the_version(
    source: Source, reference: str | None, changes: Changes, expected: str
) -> None:
    version = Manifest("v1", "lobby", None, 1, 1, None, "2026-01-01T00:00:00", source, reference)
    assert write_message(version, changes).startswith(expected)
