"""The sending side of git's protocol: clone and fetch, as dulwich serves them."""

from __future__ import annotations

from typing import Final

from dulwich.object_store import DiskObjectStore
from dulwich.objects import ObjectID
from dulwich.protocol import CAPABILITY_FILTER, Protocol
from dulwich.refs import HEADREF, DictRefsContainer, Ref
from dulwich.repo import BaseRepo
from dulwich.server import Backend, UploadPackHandler
from typing_extensions import override

from sshwarma.git.pkt_line import BRANCH

MAX_BAND_BYTES: Final = 65_515
"""Bytes of data in one line of a side band: the most that a line may have, but for its head."""


class ServedRepository(BaseRepo):
    """The objects of a view with the branch as it was when it was read."""

    def __init__(self, store: DiskObjectStore, head: ObjectID | None) -> None:
        refs = {} if head is None else {HEADREF: b"ref: " + BRANCH, Ref(BRANCH): head}
        super().__init__(store, DictRefsContainer(refs))


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
    backend = _OneRepository(ServedRepository(store, head))
    _UploadHandler(backend, ["/"], protocol).handle()
