"""The sending side of git's protocol: clone and fetch, as dulwich serves them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dulwich.object_store import DiskObjectStore
from dulwich.objects import ObjectID, RawObjectID, ShaFile, Tree, TreeEntry
from dulwich.protocol import CAPABILITY_FILTER, Protocol
from dulwich.refs import HEADREF, DictRefsContainer, Ref
from dulwich.repo import BaseRepo
from dulwich.server import Backend, UploadPackHandler
from typing_extensions import override

from sshwarma.git.fsck import read_tree
from sshwarma.git.pkt_line import BRANCH

MAX_BAND_BYTES: Final = 65_515
"""Bytes of data in one line of a side band: the most that a line may have, but for its head."""


class ServedRepository(BaseRepo):
    """The objects of a view with the branch as it was when it was read."""

    def __init__(self, store: DiskObjectStore, head: ObjectID | None) -> None:
        refs = {} if head is None else {HEADREF: b"ref: " + BRANCH, Ref(BRANCH): head}
        super().__init__(store, DictRefsContainer(refs))


class _StoredTree(Tree):
    """A tree with all its entries, for the search for what a client lacks."""

    @override
    def iteritems(self, name_order: bool = False) -> Iterator[TreeEntry]:
        """Yield the entries as they are stored: a name may be there twice."""
        for mode, path, sha in read_tree(self.as_raw_string()):
            yield TreeEntry(path, mode, sha)


class _ServedStore(DiskObjectStore):
    """The objects of a view, whose trees have all their entries.

    A room that is older than the check of pushed trees (`fsck`) may have one with a name twice.
    dulwich reads the last of them, and a client would not get the object of the other.
    """

    @override
    def __getitem__(self, object_id: ObjectID | RawObjectID) -> ShaFile:
        type_number, data = self.get_raw(object_id)
        if type_number == Tree.type_num:
            return _StoredTree.from_string(data)
        return ShaFile.from_raw_string(type_number, data)


class _OneRepository(Backend):
    """Gives its one repository, whatever the path."""

    def __init__(self, repository: ServedRepository) -> None:
        self._repository = repository

    @override
    def open_repository(self, path: str) -> ServedRepository:  # type: ignore[override]
        return self._repository


class _UploadHandler(UploadPackHandler):
    """The handler of a clone or fetch, without filters, which cost much time."""

    @override
    def capabilities(self) -> list[bytes]:
        return [name for name in super().capabilities() if name != CAPABILITY_FILTER]


class SideBandProtocol(Protocol):
    """The protocol with a side band that takes linear time for large files."""

    @override
    def write_sideband(self, channel: int, blob: bytes) -> None:
        with memoryview(blob) as view:
            for start in range(0, len(view), MAX_BAND_BYTES):
                self.write_pkt_line(bytes((channel,)) + view[start : start + MAX_BAND_BYTES])


def serve_upload(store: DiskObjectStore, head: ObjectID | None, protocol: Protocol) -> None:
    """Send what a client asks for.

    Raises:
        GitProtocolError: if the client breaks the protocol, or hangs up.
    """
    served = _ServedStore(store.path)
    try:
        backend = _OneRepository(ServedRepository(served, head))
        _UploadHandler(backend, ["/"], protocol).handle()
    finally:
        served.close()
