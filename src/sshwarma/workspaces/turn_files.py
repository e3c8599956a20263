"""Files that follow the conversation: a turn takes its changes with it.

Each version that a tool made knows its turn. When a turn is dropped, a path that has changed since,
by a person or another turn, stays as it is. A branch that is left keeps all its files as they were,
and has them again when somebody switches back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, select

from sshwarma.common.shorten import join_with_rest
from sshwarma.workspaces import manifests
from sshwarma.workspaces.manifests import Manifest
from sshwarma.workspaces.tree import Entry, Tree, apply_changes, compare_trees, merge_trees
from sshwarma.workspaces.workspace import Workspaces, complete_changes
from sshwarma.world import things, turns
from sshwarma.world.caller import Caller
from sshwarma.world.events import FilesChanged
from sshwarma.world.schema import manifests as manifests_table
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn

MAX_NAMED_PATHS = 3
"""Paths that a sentence about them names."""

LEFT_KEY: Final = "left_manifest_ids"
"""The key of a room's metadata that names versions of its files by the turn they were left at."""

MAX_LEFT_BRANCHES: Final = 100
"""Ends of a conversation whose files are remembered; of others, the changes of turns are merged."""


@dataclass(frozen=True, slots=True)
class FilesMoved:
    """Files that changed with the conversation, and those that stayed as they are."""

    changed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """What the notice for everybody adds; "" if no file is concerned."""
        parts = [self._changed_text] * bool(self.changed) + [self._kept_text] * bool(self.kept)
        return "".join(f"; {part}" for part in parts)

    @property
    def text(self) -> str:
        """Sentences about them, with a space before; "" if no file is concerned."""
        text = ""
        if self.changed:
            text += f" {self._changed_text}."
        if self.kept:
            text += f" {self._kept_text}."
        return text

    @property
    def _changed_text(self) -> str:
        noun = "file" if len(self.changed) == 1 else "files"
        named = join_with_rest(self.changed, MAX_NAMED_PATHS)
        return f"{len(self.changed)} {noun} changed with it: {named}"

    @property
    def _kept_text(self) -> str:
        named = join_with_rest(self.kept, MAX_NAMED_PATHS)
        be, stay = ("was", "stays") if len(self.kept) == 1 else ("were", "stay")
        return f"{named} {be} changed since, and {stay}"


def remember_files(tx: Change, workspaces: Workspaces, room_id: str) -> None:
    """Remember the version of the files at the end of the conversation."""
    head = turns.read_head(tx.conn, room_id)
    if head is None:
        return
    version_id, _ = workspaces.get_active(tx.conn, room_id)
    left = {one: known for one, known in _read_left(tx.conn, room_id).items() if one != head}
    left = {**dict(list(left.items())[1 - MAX_LEFT_BRANCHES :]), head: version_id or ""}
    things.set_metadata(tx, room_id, structural=False, **{LEFT_KEY: left})


def forget_files(tx: Change, turn: Turn) -> None:
    """Forget the versions at branches with a turn that is dropped or restored."""
    if left := _read_left(tx.conn, turn.room_id):
        concerned = turns.read_descendant_ids(tx.conn, turn)
        left = {one: version for one, version in left.items() if one not in concerned}
        things.set_metadata(tx, turn.room_id, structural=False, **{LEFT_KEY: left or None})


def return_files(tx: Change, workspaces: Workspaces, room_id: str) -> FilesMoved | None:
    """Give the files the version of when this end of the conversation was left.

    Returns:
        What has changed; None if it is not known: then `move_files` is to be used.
    """
    known = _read_left(tx.conn, room_id).get(turns.read_head(tx.conn, room_id) or "")
    version_id = known or None
    if known is None or (version_id and manifests.get_manifest(tx.conn, version_id) is None):
        return None
    active_id, tree = workspaces.get_active(tx.conn, room_id)
    target = workspaces.get_tree(tx.conn, version_id)
    changes = compare_trees(tree, target)
    if version_id != active_id:  # also if its files are the same: their history is another
        _activate(tx, room_id, version_id, changes)
    return FilesMoved(_list_files(changes, tree, target), ())


def _activate(tx: Change, room_id: str, version_id: str | None, changed: Iterable[str]) -> None:
    """Give the room an earlier version, which differs in these paths."""
    manifests.set_active(tx, room_id, version_id)
    tx.publish_on_commit(FilesChanged(room_id, version_id, tuple(changed)))


def _read_left(conn: Connection, room_id: str) -> dict[str, str]:
    """Return the versions at the ends of the conversation that were left, by turn."""
    room = things.get_thing(conn, room_id)
    left = room.metadata.get(LEFT_KEY) if room is not None else None
    return left if isinstance(left, dict) else {}


def move_files(
    tx: Change,
    workspaces: Workspaces,
    caller: Caller,
    *,
    removed: Collection[Turn] = (),
    added: Collection[Turn] = (),
) -> FilesMoved:
    """Take back the changes of turns that leave, and make those of turns that join.

    Args:
        tx: the change that moves the conversation.
        workspaces: the files of all rooms.
        caller: who moves it, in its room.
        removed: turns that leave it and were not dropped before, in any order.
        added: turns that come into it, in any order.
    """
    room_id = caller.room_id
    leaving, joining = (sorted(given, key=lambda turn: turn.id) for given in (removed, added))
    active_id, tree = workspaces.get_active(tx.conn, room_id)
    result = dict(tree)
    kept: set[str] = set()
    candidates: list[str | None] = []

    def merge(base: Tree, other: Tree) -> None:
        nonlocal result
        merged = merge_trees(base, result, other)
        result = apply_changes(result, merged.changes)
        kept.update(merged.conflicts)

    for turn in reversed(leaving):
        versions = _read_versions(tx.conn, turn)
        before, after = _read_sides(tx.conn, workspaces, versions)
        merge(after, before)
        candidates += [version.parent_id for version in versions[:1]]
    for turn in joining:
        versions = _read_versions(tx.conn, turn)
        before, after = _read_sides(tx.conn, workspaces, versions)
        merge(before, after)
        candidates += [version.id for version in versions[-1:]]
    changes = compare_trees(tree, result)
    result = apply_changes(tree, complete_changes(tree, changes))
    changes = compare_trees(tree, result)
    newest = reversed(candidates)
    equal = next(([one] for one in newest if workspaces.get_tree(tx.conn, one) == result), [])
    if equal:
        moved_ids = {turn.id for turn in (*leaving, *joining)}
        if changes or _have_same_base(tx.conn, active_id, equal[0], moved_ids):
            _activate(tx, room_id, equal[0], changes)
    elif changes:
        workspaces.change_in(
            tx,
            room_id,
            lambda _: changes,
            source="branch",
            source_ref=(*leaving, *joining)[-1].id,
            author_id=caller.agent.id,
        )
    return FilesMoved(_list_files(changes, tree, result), tuple(sorted(kept)))


def _have_same_base(
    conn: Connection, one_id: str | None, other_id: str | None, turn_ids: Collection[str]
) -> bool:
    """Return whether two versions differ in nothing but those that some turns made.

    Else one of them has versions of people that the other has not.
    """

    def find_base(version_id: str | None) -> str | None:
        columns = (manifests_table.c.parent_id, manifests_table.c.turn_id)
        while version_id is not None:
            query = select(*columns).where(manifests_table.c.id == version_id)
            version = conn.execute(query).first()
            if version is None or version.turn_id not in turn_ids:
                return version_id
            version_id = version.parent_id
        return None

    return find_base(one_id) == find_base(other_id)


def _list_files(paths: Iterable[str], *trees: Tree) -> tuple[str, ...]:
    """Return the paths that are a file in one of the trees."""
    found = ((path, [tree.get(path) for tree in trees]) for path in paths)
    return tuple(
        path
        for path, entries in found
        if any(entry is not None and not entry.is_folder for entry in entries)
    )


def _read_versions(conn: Connection, turn: Turn) -> list[Manifest]:
    """Return the versions that the tools of a turn made, oldest first."""
    query = (
        select(manifests_table.c.id)
        .where(manifests_table.c.turn_id == turn.id)
        .order_by(manifests_table.c.id)
    )
    found = (manifests.get_manifest(conn, id) for (id,) in conn.execute(query).all())
    return [manifest for manifest in found if manifest is not None]


def _read_sides(
    conn: Connection, workspaces: Workspaces, versions: Sequence[Manifest]
) -> tuple[Tree, Tree]:
    """Return the entries that versions changed: before the first, after the last."""
    before: dict[str, Entry | None] = {}
    after: dict[str, Entry | None] = {}
    for version in versions:
        tree = workspaces.get_tree(conn, version.parent_id)
        for path, entry in manifests.read_changed_paths(conn, version).items():
            before.setdefault(path, tree.get(path))
            after[path] = entry
    return apply_changes({}, before), apply_changes({}, after)
