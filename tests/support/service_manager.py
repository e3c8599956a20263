"""The end of systemd's socket: what a server tells its service manager."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS = 30.0


class ServiceManager:
    """A socket that keeps what it is sent; `address` is the value of NOTIFY_SOCKET."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(SECONDS)
        self._socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)

    def read(self) -> dict[str, str]:
        """Wait for the next message; return its values by name."""
        lines = self._socket.recv(4096).decode().split("\n")
        return dict(line.split("=", 1) for line in lines)

    def read_other(self, name: str) -> dict[str, str]:
        """Wait for the next message without that name."""
        while name in (message := self.read()):
            pass
        return message

    def has_message(self) -> bool:
        """Return whether a message waits to be read."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        self._socket.close()


@contextmanager
def listening(folder: Path, *, abstract: bool = False) -> Iterator[ServiceManager]:
    """A service manager with a socket in a folder, or with an abstract one."""
    name = f"@sshwarma-test-{os.getpid()}-{folder.name}" if abstract else str(folder / "notify")
    manager = ServiceManager(name)
    try:
        yield manager
    finally:
        manager.close()
