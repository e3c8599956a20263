"""A tree by folders is the same whether it is built at once or kept up to date."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sshwarma.workspaces.folder_index import FolderIndex
from sshwarma.workspaces.tree import EMPTY_FOLDER, Entry, list_folders

PATHS = ["a", "b", "c/d", "c/e", "c/f/g", "h/i/j", "h/i/k", "l"]
ENTRIES = st.builds(lambda size: Entry(str(size), size=size), st.integers(0, 3))
TREES = st.dictionaries(st.sampled_from(PATHS), ENTRIES)
FOLDERS = st.dictionaries(st.sampled_from(["m", "n/o"]), st.just(EMPTY_FOLDER))


def check(index: FolderIndex, tree: dict[str, Entry]) -> None:
    assert len(index) == len(tree)
    assert index.total_bytes == sum(entry.size for entry in tree.values())
    assert sorted(index.find_below("")) == sorted(tree)
    folders = list_folders(tree)
    for path in {*PATHS, *folders, "m", "n", "n/o", "c", "h", "h/i", "c/f"}:
        expected = "folder" if path in folders else "file" if path in tree else None
        assert index.kind_of(path) == expected
        below = {
            other[len(path) + 1 :] for other in {*tree, *folders} if other.startswith(f"{path}/")
        }
        assert index.list_names(path) == sorted({name.partition("/")[0] for name in below})


@given(st.lists(st.tuples(TREES, FOLDERS), max_size=4))
def test_index_follows_its_trees(trees: list[tuple[dict[str, Entry], dict[str, Entry]]]) -> None:
    index = FolderIndex()
    for files, folders in trees:
        index.update(files | folders)
        check(index, files | folders)


@given(st.lists(st.tuples(st.sampled_from(PATHS), st.one_of(st.none(), ENTRIES)), max_size=20))
def test_index_follows_single_changes(changes: list[tuple[str, Entry | None]]) -> None:
    index, tree = FolderIndex(), dict[str, Entry]()
    for path, entry in changes:
        index.set(path, entry)
        tree.pop(path, None)
        if entry is not None:
            tree[path] = entry
        check(index, tree)


def test_file_takes_the_place_of_a_folder() -> None:
    index = FolderIndex()
    index.update({"a/b": Entry("1")})
    index.update({"a": Entry("2")})
    assert (index.kind_of("a"), index.kind_of("a/b")) == ("file", None)
    index.update({"a/b": Entry("1")})
    assert (index.kind_of("a"), index.kind_of("a/b")) == ("folder", "file")
