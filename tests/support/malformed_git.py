"""Objects that `git fsck --strict` refuses, each with a word of our refusal."""

from __future__ import annotations

from typing import Final

from support.raw_git import BLOB, COMMIT, TREE, commit_of, object_id, pack, packed, tree_of

WHO: Final = "Eve <eve@example.org> 1700000000 +0000"
FILE: Final = b"x\n"

_A: Final = ("100644", "a", object_id(b"blob", FILE))
_B: Final = ("100644", "b", object_id(b"blob", FILE))
_INNER, _INNER_ID = tree_of(_A)

TREES: Final = {
    "name twice": ([_A, ("100644", "a", object_id(b"blob", b"y\n"))], "a name twice"),
    "file and folder": (
        [_A, ("100644", "a.b", _A[2]), ("40000", "a", _INNER_ID)],
        "a name twice",
    ),
    "not sorted": ([_B, _A], "not sorted"),
    "folder like a file": (
        [("40000", "a", _INNER_ID), ("100644", "a.b", _A[2])],
        "not sorted",
    ),
    "mode of a file": ([("0100644", *_A[1:])], "begins with 0"),
    "mode of a folder": ([("040000", "d", _INNER_ID)], "begins with 0"),
    "mode with a sign": ([("+100644", *_A[1:])], "no number"),
    "modules of submodules": ([("100644", ".gitmodules", _A[2])], "for submodules"),
    "folder of modules": ([("40000", ".gitmodules", _INNER_ID)], "for submodules"),
    "modules on Windows": ([("40000", "GITMOD~1", _INNER_ID)], "for submodules"),
    "modules by a hash": ([("40000", "gi7eba~1", _INNER_ID)], "for submodules"),
    "link of modules": ([("120000", ".gitmodules", _A[2])], "is a link"),
    "folder of attributes": ([("40000", ".gitattributes", _INNER_ID)], "git wants a file"),
    "folder of git": ([("40000", ".GIT", _INNER_ID)], "git's own"),
    "folder of git on Windows": ([("40000", "git~1", _INNER_ID)], "git's own"),
    "folder of git with a dot": ([("40000", ".git.", _INNER_ID)], "git's own"),
    "folder of git with a letter": ([("40000", ".g\u200cit", _INNER_ID)], "U+200C"),
}
"""Trees; that of `modules of submodules` is one for us alone."""

COMMITS: Final = {
    "negative date": (WHO.replace(" 17", " -17"), WHO, "x", "no number of seconds"),
    "padded date": (WHO.replace(" 17", " 017"), WHO, "x", "begins with 0"),
    "padded date of the committer": (WHO, WHO.replace(" 17", " 017"), "x", "begins with 0"),
    "date of letters": (WHO.replace(" 17", " 1_7"), WHO, "x", "no number of seconds"),
    "late date": (WHO.replace(" 17", " 17999999999999"), WHO, "x", "too late"),
    "zone": (WHO, WHO.replace("+0000", "+00000"), "x", "time zone"),
    "no space before the address": (WHO.replace(" <", "<"), WHO, "x", "the author not as"),
    "no name": (WHO.removeprefix("Eve "), WHO, "x", "the author not as"),
    "no address": (WHO, "Eve 1700000000 +0000", "x", "the committer not as"),
    "several authors": (f"{WHO}\nauthor {WHO}", WHO, "x", "several authors"),
    "NUL in the message": (WHO, WHO, "x\0y", "NUL"),
}
"""Commits: author, committer and message."""


def malformed_tree(kind: str) -> tuple[bytes, bytes]:
    """A tree, and its id."""
    return tree_of(*TREES[kind][0])


def malformed_commit(kind: str, tree_id: bytes, parent: str = "") -> bytes:
    """A commit; "" as the parent for none."""
    author, committer, message, _ = COMMITS[kind]
    above = f"parent {parent}\n" if parent else ""
    head = f"tree {tree_id.hex()}\n{above}author {author}\ncommitter {committer}\n"
    return f"{head}\n{message}\n".encode()


def malformed_push(kind: str, parent: str = "") -> tuple[bytes, str, str, str]:
    """A pack, the id of its commit, that of the malformed object, and the refusal."""
    tree, tree_id = malformed_tree(kind) if kind in TREES else (_INNER, _INNER_ID)
    if kind in TREES:
        commit, head = commit_of(tree_id, *([parent] if parent else []))
        wrong, said = tree_id.hex(), TREES[kind][1]
    else:
        commit = malformed_commit(kind, tree_id, parent)
        wrong = head = object_id(b"commit", commit).hex()
        said = COMMITS[kind][3]
    files = [packed(BLOB, FILE), packed(BLOB, b"y\n"), packed(TREE, _INNER)]
    return pack([packed(COMMIT, commit), packed(TREE, tree), *files]), head, wrong, said
