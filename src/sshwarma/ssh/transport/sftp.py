"""The protocol of sftp on a channel: asyncssh's, over what the world shows.

Every public method of asyncssh's server is overridden, so that no request can reach the file system
of the machine: tests/ssh_transport/test_sftp_server.py checks it.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any, Final, Never, TypeVar

import asyncssh
import structlog
from asyncssh.constants import (
    FX_FAILURE,
    FX_NO_SUCH_FILE,
    FX_OP_UNSUPPORTED,
    FX_PERMISSION_DENIED,
    FXF_APPEND,
    FXF_CREAT,
    FXF_EXCL,
    FXF_READ,
    FXF_TRUNC,
    FXF_WRITE,
)
from asyncssh.logging import SSHLogger
from asyncssh.logging import logger as asyncssh_logger

from sshwarma.common.limits import MAX_SFTP_HANDLES, MAX_SFTP_TRANSFER_BYTES
from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.common.refusals import count_refusal
from sshwarma.ssh.transport._asyncssh import AsyncsshSftpHandler
from sshwarma.ssh.transport.interfaces import (
    SftpAttributes,
    SftpFile,
    SftpFiles,
    SftpOpenMode,
    SftpRefused,
)
from sshwarma.ssh.transport.sftp_attributes import format_line, to_attrs, to_changes, to_space
from sshwarma.ssh.transport.sftp_stream import MAX_PACKET_BYTES, SftpStream

log = structlog.get_logger(__name__)
T = TypeVar("T")

_CODES: Final = {
    "missing": FX_NO_SUCH_FILE,
    "denied": FX_PERMISSION_DENIED,
    "failure": FX_FAILURE,
    "unsupported": FX_OP_UNSUPPORTED,
}


class SftpRequestHandler(AsyncsshSftpHandler):
    """The requests of one client of sftp."""

    def limits_of_client(self) -> tuple[int, int, int]:
        """Return the limits that clients may ask for."""
        return MAX_PACKET_BYTES, MAX_SFTP_TRANSFER_BYTES, MAX_SFTP_HANDLES

    def on_too_many_handles(self) -> asyncssh.SFTPError:
        """Count the refusal."""
        count_refusal("sftp_handles")
        return asyncssh.SFTPFailure(f"at most {MAX_SFTP_HANDLES} files and folders can be open")


async def serve_sftp(stream: SftpStream, files: SftpFiles) -> None:
    """Answer a client until its input ends; the files are the caller's to end."""
    with contextlib.suppress(EOFError):  # before the first request
        await SftpRequestHandler(SftpServer(files), stream).run()


class SftpServer(asyncssh.SFTPServer):
    """asyncssh's server, which asks `SftpFiles` for everything."""

    def __init__(self, files: SftpFiles) -> None:
        self._shown = files

    # What a request asks for

    async def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:
        """Open a file."""
        writes = bool(pflags & (FXF_WRITE | FXF_APPEND))
        mode = SftpOpenMode(
            reads=bool(pflags & FXF_READ) or not writes,
            writes=writes,
            appends=bool(pflags & FXF_APPEND),
            creates=bool(pflags & FXF_CREAT),
            truncates=bool(pflags & FXF_TRUNC),
            exclusive=bool(pflags & FXF_EXCL),
            permissions=attrs.permissions,
        )
        return await _answer(self._shown.open(path, mode))

    async def open56(
        self, path: bytes, desired_access: int, flags: int, attrs: asyncssh.SFTPAttrs
    ) -> object:
        """Refuse what only later versions of the protocol ask for."""
        _refuse("versions 5 and 6 of sftp are not known here")

    async def close(self, file_obj: object) -> None:
        """Keep a file that the client closed."""
        await _answer(_file(file_obj).close())

    async def read(self, file_obj: object, offset: int, size: int) -> bytes:
        """Read a part; less than was asked for if that is more than one answer may have."""
        return await _answer(_file(file_obj).read(offset, min(size, MAX_SFTP_TRANSFER_BYTES)))

    async def write(self, file_obj: object, offset: int, data: bytes) -> int:
        """Write a part."""
        await _answer(_file(file_obj).write(offset, data))
        return len(data)

    async def fsync(self, file_obj: object) -> None:
        """Wait for the disk."""
        await _answer(_file(file_obj).sync())

    async def stat(self, path: bytes) -> asyncssh.SFTPAttrs:
        """Return attributes."""
        return to_attrs(await _answer(self._shown.stat(path)))

    async def lstat(self, path: bytes) -> asyncssh.SFTPAttrs:
        """Return attributes; there are no links."""
        return await self.stat(path)

    async def fstat(self, file_obj: object) -> asyncssh.SFTPAttrs:
        """Return the attributes of an open file."""
        return to_attrs(await _answer(_file(file_obj).stat()))

    async def setstat(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        """Set attributes."""
        await _answer(self._shown.set_attributes(path, to_changes(attrs)))

    async def lsetstat(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        """Set attributes; there are no links."""
        await self.setstat(path, attrs)

    async def fsetstat(self, file_obj: object, attrs: asyncssh.SFTPAttrs) -> None:
        """Set attributes of an open file."""
        await _answer(_file(file_obj).set_attributes(to_changes(attrs)))

    async def scandir(self, path: bytes) -> AsyncIterator[asyncssh.SFTPName]:
        """Yield what is in a folder."""
        listed: Mapping[bytes, SftpAttributes] = await _answer(self._shown.list_folder(path))
        here = await _answer(self._shown.stat(path))
        for name, attributes in ({b".": here, b"..": here} | dict(listed)).items():
            yield asyncssh.SFTPName(name, format_line(name, attributes), to_attrs(attributes))

    async def realpath(self, path: bytes) -> bytes:
        """Return a path from the root."""
        return _refusing(self._shown.resolve, path)

    async def mkdir(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        """Make a folder; folders have no permissions of their own."""
        await _answer(self._shown.make_folder(path))

    async def rmdir(self, path: bytes) -> None:
        """Remove an empty folder."""
        await _answer(self._shown.remove_folder(path))

    async def remove(self, path: bytes) -> None:
        """Remove a file."""
        await _answer(self._shown.remove(path))

    async def rename(self, oldpath: bytes, newpath: bytes) -> None:
        """Rename; nothing may be at the new path."""
        await _answer(self._shown.rename(oldpath, newpath, replaces=False))

    async def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        """Rename, in place of a file at the new path."""
        await _answer(self._shown.rename(oldpath, newpath, replaces=True))

    async def statvfs(self, path: bytes) -> asyncssh.SFTPVFSAttrs:
        """Return the room where a path is."""
        return to_space(await _answer(self._shown.space(path)))

    async def fstatvfs(self, file_obj: object) -> asyncssh.SFTPVFSAttrs:
        """Return the room where an open file is."""
        return to_space(await _answer(_file(file_obj).space()))

    async def readlink(self, path: bytes) -> bytes:
        """Refuse: there are no links."""
        _refuse("there are no links here")

    async def symlink(self, oldpath: bytes, newpath: bytes) -> None:
        """Refuse: there are no links."""
        _refuse("links cannot be made here")

    async def link(self, oldpath: bytes, newpath: bytes) -> None:
        """Refuse: there are no links."""
        _refuse("links cannot be made here")

    async def lock(self, file_obj: object, offset: int, length: int, flags: int) -> None:
        """Refuse: there are no locks."""
        _refuse("files cannot be locked here")

    async def unlock(self, file_obj: object, offset: int, length: int) -> None:
        """Refuse: there are no locks."""
        _refuse("files cannot be locked here")

    # What asyncssh's own methods would ask the machine for

    @property
    def channel(self) -> Never:
        """Refuse: the files know no channel."""
        raise NotImplementedError

    @property
    def connection(self) -> Never:
        """Refuse: the files know no connection."""
        raise NotImplementedError

    @property
    def env(self) -> Mapping[str, str]:
        """Return no environment."""
        return {}

    @property
    def logger(self) -> SSHLogger:
        """The log of asyncssh."""
        return asyncssh_logger

    async def convert_attrs(self, result: Any) -> asyncssh.SFTPAttrs:
        """Return attributes, which are asyncssh's already."""
        attrs: asyncssh.SFTPAttrs = await result if isinstance(result, Awaitable) else result
        return attrs

    def format_user(self, uid: int | None) -> str:
        """Return the name that lists show as owner."""
        return "room"

    def format_group(self, gid: int | None) -> str:
        """Return the name that lists show as group."""
        return "room"

    def format_longname(self, name: asyncssh.SFTPName) -> None:
        """Leave the line of a list as `scandir` made it."""

    def map_path(self, path: bytes) -> Never:
        """Refuse: no path is one of the machine."""
        raise NotImplementedError

    def reverse_map_path(self, path: bytes) -> Never:
        """Refuse: no path is one of the machine."""
        raise NotImplementedError

    def exit(self) -> None:
        """Do nothing: the owner of the files ends them."""


def _file(file_obj: object) -> SftpFile:
    file: SftpFile = file_obj  # type: ignore[assignment]  # what `open` returned
    return file


def _refuse(reason: str) -> Never:
    raise asyncssh.SFTPOpUnsupported(reason)


async def _answer(work: Awaitable[T]) -> T:
    """Return what the world answers, or raise its refusal as asyncssh's error."""
    try:
        return await work
    except SftpRefused as refused:
        raise asyncssh.SFTPError(_CODES[refused.kind], refused.reason) from refused
    except Exception as error:
        log.exception("a request over sftp failed")
        raise asyncssh.SFTPFailure(INTERNAL_ERROR) from error


def _refusing(work: Any, path: bytes) -> bytes:
    try:
        resolved: bytes = work(path)
    except SftpRefused as refused:
        raise asyncssh.SFTPError(_CODES[refused.kind], refused.reason) from refused
    return resolved
