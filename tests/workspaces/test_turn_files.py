"""Files follow the conversation: undo, restore, and other branches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from sshwarma.services import services_of
from sshwarma.workspaces import manifests
from sshwarma.workspaces.history import list_manifests
from sshwarma.workspaces.tree import EMPTY_FOLDER, Changes, Entry, Tree
from sshwarma.workspaces.turn_files import (
    FilesMoved,
    move_files,
    remember_files,
    return_files,
)
from sshwarma.world import turns
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn
from sshwarma.world.world import World
from support.people import Someone, settle


def entry(content: str) -> Entry:
    return Entry(content * 64, size=len(content))


def _return(changes: Changes, _: Tree) -> Changes:
    return changes


class Room:
    """The lobby, with turns that change its files."""

    def __init__(self, world: World, person: Someone) -> None:
        self.world = world
        self.person = person
        self.workspaces = services_of(person.caller).workspaces

    async def change(self, changes: Changes, turn: Turn | None = None) -> str:
        """Change files, as a tool of a turn or as a person; return the version's id."""

        def work(tx: Change) -> str:
            made = self.workspaces.change_in(
                tx,
                "lobby",
                lambda _: changes,
                source="tool_run" if turn else "edit",
                turn_id=turn.id if turn else None,
            )
            return made.manifest.id

        return await settle(self.world, work)

    async def open_turn(self) -> Turn:
        id = self.person.id
        return await settle(self.world, lambda tx: turns.open_turn(tx, "lobby", id, id))

    async def move(self, removed: Sequence[Turn] = (), added: Sequence[Turn] = ()) -> FilesMoved:
        caller = self.person.caller
        return await settle(
            self.world,
            lambda tx: move_files(tx, self.workspaces, caller, removed=removed, added=added),
        )

    async def files(self) -> dict[str, str]:
        _, tree = await self.workspaces.read_tree("lobby")
        return {path: entry.sha256[0] for path, entry in sorted(tree.items())}

    async def active(self) -> str | None:
        read = manifests.read_active_id
        return await self.world.store.read(lambda conn: read(conn, "lobby"))


@pytest.fixture
def lobby(world: World, alice: Someone) -> Room:
    return Room(world, alice)


async def test_turn_that_leaves_takes_its_changes_back_and_brings_them_again(lobby: Room) -> None:
    before = await lobby.change({"a": entry("1"), "gone": entry("2")})
    turn = await lobby.open_turn()
    await lobby.change({"a": entry("3")}, turn)
    after = await lobby.change({"a": entry("4"), "b": entry("5"), "gone": None}, turn)
    moved = await lobby.move(removed=[turn])
    assert moved == FilesMoved(("a", "b", "gone"), ())
    assert moved.text == " 3 files changed with it: a, b, gone."
    assert (await lobby.files(), await lobby.active()) == ({"a": "1", "gone": "2"}, before)
    await lobby.move(added=[turn])
    assert (await lobby.files(), await lobby.active()) == ({"a": "4", "b": "5"}, after)


async def test_what_others_changed_since_stays(lobby: Room) -> None:
    await lobby.change({"a": entry("1"), "b": entry("1")})
    turn = await lobby.open_turn()
    await lobby.change({"a": entry("2"), "b": entry("2"), "c": entry("2")}, turn)
    await lobby.change({"a": entry("3"), "d": entry("3")})
    moved = await lobby.move(removed=[turn])
    assert moved == FilesMoved(("b", "c"), ("a",))
    assert moved.text == " 2 files changed with it: b, c. a was changed since, and stays."
    assert moved.note == "; 2 files changed with it: b, c; a was changed since, and stays"
    assert await lobby.files() == {"a": "3", "b": "1", "d": "3"}
    history = await lobby.world.store.read(
        lambda conn: list_manifests(conn, manifests.read_active_id(conn, "lobby"), 1)
    )
    assert (history[0][0].source, history[0][0].source_ref) == ("branch", turn.id)


async def test_branches_have_their_own_files(lobby: Room) -> None:
    """A person's change between two answers is in both."""
    await lobby.change({"a": entry("1")})
    first = await lobby.open_turn()
    first_version = await lobby.change({"a": entry("2"), "x": entry("2")}, first)
    await lobby.move(removed=[first])
    second = await lobby.open_turn()
    second_version = await lobby.change({"a": entry("3")}, second)
    await lobby.move(removed=[second], added=[first])
    assert await lobby.files() == {"a": "2", "x": "2"}
    assert await lobby.active() == first_version
    await lobby.move(removed=[first], added=[second])
    assert (await lobby.files(), await lobby.active()) == ({"a": "3"}, second_version)
    await lobby.change({"person": entry("9")})
    await lobby.move(removed=[second], added=[first])
    assert await lobby.files() == {"a": "2", "person": "9", "x": "2"}


async def test_version_is_that_of_the_branch_also_if_its_files_are_the_same(lobby: Room) -> None:
    await lobby.change({"a": entry("1")})
    first = await lobby.open_turn()
    first_version = await lobby.change({"a": entry("2")}, first)
    await lobby.move(removed=[first])
    second = await lobby.open_turn()
    second_version = await lobby.change({"a": entry("2")}, second)
    assert await lobby.move(removed=[second], added=[first]) == FilesMoved((), ())
    assert await lobby.active() == first_version
    await lobby.move(removed=[first], added=[second])
    assert await lobby.active() == second_version


async def test_version_at_the_end_of_a_branch_comes_back_also_if_its_files_are_the_same(
    lobby: Room,
) -> None:
    await lobby.change({"a": entry("1")})
    turn = await lobby.open_turn()
    version = await lobby.change({"a": entry("2")}, turn)

    def leave_and_return(tx: Change) -> FilesMoved | None:
        remember_files(tx, lobby.workspaces, "lobby")
        for content in "32":
            changes: Changes = {"a": entry(content)}
            lobby.workspaces.change_in(tx, "lobby", partial(_return, changes), source="edit")
        return return_files(tx, lobby.workspaces, "lobby")

    assert await settle(lobby.world, leave_and_return) == FilesMoved((), ())
    assert await lobby.active() == version


async def test_undo_of_what_a_turn_took_back_itself_leaves_its_versions(lobby: Room) -> None:
    before = await lobby.change({"a": entry("1")})
    turn = await lobby.open_turn()
    for content in "21":
        after = await lobby.change({"a": entry(content)}, turn)
    assert await lobby.move(removed=[turn]) == FilesMoved((), ())
    assert await lobby.active() == before
    assert await lobby.move(added=[turn]) == FilesMoved((), ())
    assert await lobby.active() == after


async def test_versions_of_people_stay_if_nothing_changes_with_a_turn(lobby: Room) -> None:
    """They would be gone from the history of the files, and from git."""
    await lobby.change({"a": entry("1")})
    turn = await lobby.open_turn()
    await lobby.change({"b": entry("2")}, turn)
    removed = await lobby.change({"b": None})
    assert await lobby.move(removed=[turn]) == FilesMoved((), ())
    assert await lobby.active() == removed
    made_again = await lobby.change({"b": entry("2")})
    assert await lobby.move(added=[turn]) == FilesMoved((), ())
    assert await lobby.active() == made_again


async def test_turns_without_files_change_none(lobby: Room) -> None:
    turn = await lobby.open_turn()
    active = await lobby.change({"a": entry("1")})
    moved = await lobby.move(removed=[turn], added=[turn])
    assert (moved, moved.text) == (FilesMoved((), ()), "")
    assert await lobby.active() == active


async def test_folder_in_the_place_of_a_file_stays(lobby: Room) -> None:
    """A file that would come back where a person made a folder cannot."""
    await lobby.change({"a": entry("1")})
    turn = await lobby.open_turn()
    await lobby.change({"a": None}, turn)
    await lobby.change({"a/b": entry("2")})
    moved = await lobby.move(removed=[turn])
    assert moved.kept == ("a",)
    assert await lobby.files() == {"a/b": "2"}


async def test_folders_that_become_empty_are_not_counted_as_files(lobby: Room) -> None:
    await lobby.change({"src": EMPTY_FOLDER})
    turn = await lobby.open_turn()
    await lobby.change({"src": None, "src/a": entry("1")}, turn)
    moved = await lobby.move(removed=[turn])
    assert moved.text == " 1 file changed with it: src/a."
    _, tree = await lobby.workspaces.read_tree("lobby")
    assert tree == {"src": EMPTY_FOLDER}


@pytest.mark.parametrize("order", [1, -1])
async def test_turns_leave_newest_first_and_join_oldest_first(lobby: Room, order: int) -> None:
    before = await lobby.change({"a": entry("1")})
    both = []
    for content in "23":
        both.append(await lobby.open_turn())
        after = await lobby.change({"a": entry(content)}, both[-1])
    assert await lobby.move(removed=both[::order]) == FilesMoved(("a",), ())
    assert await lobby.active() == before
    assert await lobby.move(added=both[::order]) == FilesMoved(("a",), ())
    assert await lobby.active() == after


async def test_last_run_is_the_newest_version_of_a_tool(lobby: Room) -> None:
    read = lobby.workspaces.read_last_run
    first = await lobby.change({"a": entry("1"), "b": entry("1")})
    assert await read(None) == await read(first) == {}
    turn = await lobby.open_turn()
    await lobby.change({"a": entry("2"), "b": None, "c": entry("2")}, turn)
    newest = await lobby.change({"d": entry("3")})
    assert await read(newest) == {"a": "changed", "b": "removed", "c": "added"}
    await lobby.change({"docs": EMPTY_FOLDER})
    filled = await lobby.change({"docs/a": entry("2")}, turn)
    assert await read(filled) == {"docs": "changed", "docs/a": "added"}
