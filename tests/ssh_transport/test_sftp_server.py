"""The server of sftp leaves no method to asyncssh that would touch real files."""

from __future__ import annotations

import inspect

import asyncssh
import pytest

from sshwarma.ssh.transport import sftp
from sshwarma.ssh.transport.sftp import SftpRequestHandler, SftpServer

PUBLIC = [
    name
    for name, value in vars(asyncssh.SFTPServer).items()
    if not name.startswith("_") and (callable(value) or isinstance(value, property))
]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_method_is_overridden(name: str) -> None:
    assert name in vars(SftpServer), f"asyncssh's own {name} would be called"


def test_private_methods_are_those_that_no_override_calls() -> None:
    private = {
        name
        for name, value in vars(asyncssh.SFTPServer).items()
        if name.startswith("_") and not name.startswith("__") and callable(value)
    }
    assert private == {"_to_sftpname"}  # `scandir` alone calls it
    used = inspect.getsource(sftp)
    assert "_to_sftpname" not in used and "super()" not in inspect.getsource(SftpServer)


def test_requests_that_need_a_real_file_are_not_offered() -> None:
    offered = {name for name, _ in SftpRequestHandler._extensions}
    assert offered <= set(SftpRequestHandler._packet_handlers) | {b"newline", b"vendor-id"}
    for name in (b"copy-data", b"ranges@asyncssh.com", b"hardlink@openssh.com"):
        assert name not in offered
        assert name not in SftpRequestHandler._packet_handlers
