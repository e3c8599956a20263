"""A push that was checked becomes a version, or is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from sshwarma.git.accept import CheckedPush, accept_push
from sshwarma.services import services_of
from sshwarma.workspaces import manifests, used_contents
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.schema import git_pushes
from support.git_access import ALLOWED
from support.people import Someone, do, settle
from support.rows import read_rows_after

HEAD = "a" * 40


def make_push(
    folder: Path, base_id: str | None, changes: Sequence[tuple[str, int, bytes | None]]
) -> CheckedPush:
    """What the process leaves and says."""
    (folder / "contents").mkdir(exist_ok=True)
    (folder / "received.pack").write_bytes(b"PACK")
    said: list[Any] = []
    for number, (path, mode, data) in enumerate(changes):
        if data is None:
            said.append([path, 0, None])
            continue
        (folder / "contents" / str(number)).write_bytes(data)
        said.append([path, mode, [str(number), hashlib.sha256(data).hexdigest(), len(data)]])
    return CheckedPush.parse({"head": HEAD, "changes": said}, base_id, folder)


async def push(someone: Someone, given: CheckedPush) -> None:
    await accept_push(someone.caller, services_of(someone.caller).workspaces, given, ALLOWED)


async def read_notices(someone: Someone) -> list[str]:
    rows = await someone.world.store.read(lambda conn: read_rows_after(conn, "lobby", 0, 100))
    return [row.content for row in rows if row.kind == "notice"]


async def test_first_push_is_taken_though_a_call_began_meanwhile(
    bob: Someone, tmp_path: Path
) -> None:
    """The empty version that the call made is no commit."""
    given = make_push(tmp_path, None, [("a", 0o100644, b"1")])
    await settle(
        bob.world,
        lambda tx: manifests.append_beginning(tx, "lobby", "c1", bob.id),
    )
    await push(bob, given)
    _, tree = await services_of(bob.caller).workspaces.read_tree("lobby")
    assert list(tree) == ["a"]


async def test_push_is_one_version_with_its_pack(bob: Someone, tmp_path: Path) -> None:
    given = make_push(tmp_path, None, [("a", 0o100644, b"1"), ("b", 0o100755, b"2")])
    await push(bob, given)
    workspaces = services_of(bob.caller).workspaces
    version, tree = await workspaces.read_tree("lobby")
    assert version is not None and sorted(tree) == ["a", "b"]
    rows = await bob.world.store.read(lambda conn: conn.execute(select(git_pushes)).all())
    assert [(row.manifest_id, row.head, row.pack_size) for row in rows] == [(version, HEAD, 4)]
    assert workspaces.blobs.read(rows[0].pack_sha256) == b"PACK"
    used = await bob.world.store.read(used_contents.read_used_hashes)
    assert rows[0].pack_sha256 in used
    assert await read_notices(bob) == ["changed 2 files by git push: a, b"]
    await push(bob, make_push(tmp_path, version, []))
    assert (await read_notices(bob))[-1] == "pushed commits that change no file"


async def test_change_of_somebody_else_refuses_a_push(
    alice: Someone, bob: Someone, tmp_path: Path
) -> None:
    await do(alice, "/file put a = 1")
    workspaces = services_of(bob.caller).workspaces
    version, _ = await workspaces.read_tree("lobby")
    given = make_push(tmp_path, version, [("b", 0o100644, b"2")])
    await do(alice, "/file put c = 3")
    with pytest.raises(Conflict, match="fetch first: somebody changed the room meanwhile"):
        await push(bob, given)
    _, tree = await workspaces.read_tree("lobby")
    assert sorted(tree) == ["a", "c"]


@pytest.mark.parametrize(
    "change",
    [
        ("../a", 0o100644, b"1"),
        ("/a", 0o100644, b"1"),
        ("a\x00b", 0o100644, b"1"),
        ("a", 0o100777, b"1"),
        ("a", 0o040000, b""),
    ],
)
async def test_what_the_process_says_is_checked_again(
    bob: Someone, tmp_path: Path, change: tuple[str, int, bytes | None]
) -> None:
    with pytest.raises(Invalid):
        await push(bob, make_push(tmp_path, None, [change]))


async def test_content_with_another_hash_is_refused(bob: Someone, tmp_path: Path) -> None:
    given = make_push(tmp_path, None, [("a", 0o100644, b"1")])
    (tmp_path / "contents" / "0").write_bytes(b"2")
    with pytest.raises(Invalid, match="another hash"):
        await push(bob, given)


async def test_content_that_is_a_link_is_not_read(bob: Someone, tmp_path: Path) -> None:
    given = make_push(tmp_path, None, [("a", 0o100644, b"1")])
    content = tmp_path / "contents" / "0"
    (tmp_path / "secret").write_bytes(b"1")
    content.unlink()
    content.symlink_to(tmp_path / "secret")
    with pytest.raises(OSError):
        await push(bob, given)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"head": "x", "changes": []},
        {"head": "../etc", "changes": []},
        {"head": HEAD, "changes": [["a"]]},
        {"head": HEAD, "changes": [["a", "x", None]]},
        {"head": HEAD, "changes": [["a", 1, ["../x", "y", 1]]]},
    ],
)
def test_malformed_words_of_the_process_are_refused(said: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="could not be read"):
        CheckedPush.parse(said, None, tmp_path)
