"""The versions of a room's files, and those that changed a path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine, event

from sshwarma.workspaces.history import list_manifests
from sshwarma.workspaces.tree import Entry, apply_changes, compare_trees
from sshwarma.world.schema import metadata

PATHS = ("a", "a/b", "a/b/c", "a0", "a-b", "%", "d_/a", "dx/a")

Step = dict[str, Entry | None]

STEPS = st.lists(
    st.dictionaries(
        st.sampled_from(PATHS), st.sampled_from([None, Entry("1"), Entry("2")]), min_size=1
    ),
    max_size=8,
)


@contextmanager
def versions(steps: Sequence[Step], full_every: int) -> Iterator[Connection]:
    """A database with the versions "0", "1", ..., without a world."""
    engine = create_engine("sqlite://")
    metadata.create_all(engine)
    tree: dict[str, Entry] = {}
    with engine.connect() as conn:
        for number, step in enumerate(steps):
            after = apply_changes(tree, step)
            is_full = number % full_every == 0
            conn.execute(
                metadata.tables["manifests"].insert(),
                [{"id": str(number), "room_id": "r", "is_full": int(is_full),
                  "parent_id": str(number - 1) if number else None, "steps": number % full_every,
                  "entry_count": 0, "total_bytes": 0, "created_at": "", "source": "edit"}],
            )  # fmt: skip
            stored = after if is_full else compare_trees(tree, after)
            tree = after
            for path, entry in stored.items():
                conn.execute(
                    metadata.tables["manifest_entries"].insert(),
                    [{"manifest_id": str(number), "path": path, "mode": entry.mode if entry else 0,
                      "sha256": entry.sha256 if entry else None, "size": 0}],
                )  # fmt: skip
        yield conn


@given(STEPS, st.sampled_from(PATHS), st.integers(1, 4))
def test_versions_of_a_path_are_those_that_changed_it(
    steps: list[Step], path: str, full_every: int
) -> None:
    expected: list[tuple[str, bool]] = []
    tree: dict[str, Entry] = {}
    for number, step in enumerate(steps):
        after = apply_changes(tree, step)
        changed = {
            name: entry
            for name, entry in compare_trees(tree, after).items()
            if name == path or name.startswith(f"{path}/")
        }
        tree = after
        if changed:
            expected.insert(0, (str(number), not any(changed.values())))
    with versions(steps, full_every) as conn:
        newest = str(len(steps) - 1)
        found = [(one.id, removed) for one, removed in list_manifests(conn, newest, 100, path)]
        assert found == expected
        assert len(list_manifests(conn, newest, 2, path)) == min(2, len(expected))
        every = [one.id for one, _ in list_manifests(conn, newest, 100)]
        assert every == [str(number) for number in reversed(range(len(steps)))]


def test_history_of_a_path_reads_no_version_that_did_not_change_it() -> None:
    """With a query for each, 3,000 versions took five seconds."""
    steps: list[Step] = [{"a": Entry(str(number))} for number in range(200)]
    asked: list[str] = []
    with versions(steps, 50) as conn:
        event.listen(conn, "before_cursor_execute", lambda *said: asked.append(said[2]))
        assert list_manifests(conn, "199", 10, "nope") == []
    assert len(asked) <= 1 + 4 * 3, len(asked)
