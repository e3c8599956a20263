"""What a client of a clone gets: all that the trees name."""

from __future__ import annotations

import io
from pathlib import Path

from dulwich.object_store import DiskObjectStore
from dulwich.objects import ObjectID

from sshwarma.git.packs import scan_pack
from sshwarma.git.upload import SideBandProtocol, serve_upload
from support.raw_git import BLOB, COMMIT, TREE, commit_of, line, object_id, pack, packed, tree_of


def clone(store: DiskObjectStore, head: str, work: Path) -> set[str]:
    """The ids of the objects that a clone gets."""
    want = f"want {head} side-band-64k thin-pack ofs-delta\n".encode()
    asked = io.BytesIO(line(want) + b"0000" + line(b"done\n"))
    answer = io.BytesIO()
    serve_upload(store, ObjectID(head.encode()), SideBandProtocol(asked.read, answer.write))
    answer.seek(0)
    received = bytearray()
    while header := answer.read(4):
        data = answer.read(max(0, int(header, 16) - 4))
        if data[:1] == b"\1":
            received += data[1:]
    (work / "got.pack").write_bytes(received)
    return {found.id.decode() for found in scan_pack(work / "got.pack")[0]}


def test_clone_gets_both_objects_of_a_name_that_a_tree_has_twice(tmp_path: Path) -> None:
    first, second = object_id(b"blob", b"1"), object_id(b"blob", b"2")
    tree, tree_id = tree_of(("100644", "a", first), ("100644", "a", second))
    commit, head = commit_of(tree_id)
    (tmp_path / "objects" / "pack").mkdir(parents=True)
    store = DiskObjectStore(str(tmp_path / "objects"))
    objects = [packed(COMMIT, commit), packed(TREE, tree), packed(BLOB, b"1"), packed(BLOB, b"2")]
    file, finish, _ = store.add_pack()
    file.write(pack(objects))
    finish()
    got = clone(store, head, tmp_path)
    store.close()
    assert got == {head, tree_id.hex(), first.hex(), second.hex()}
