"""The host key in use, whose file a running server writes again."""

from __future__ import annotations

import os
from pathlib import Path

import asyncssh
import structlog

from sshwarma.common.files import NamedFile
from sshwarma.ssh.transport.host_key import (
    HOST_KEY_FILENAME,
    is_open_to_others,
    write_host_key_back,
)

log = structlog.get_logger(__name__)


class HeldHostKey:
    """A host key in use, and its file, which is kept open.

    So its mode is known after it was deleted, too: a key that others could read is deleted because
    of that, and must not come back.
    """

    def __init__(self, directory: Path, key: asyncssh.SSHKey) -> None:
        """Open the file of a key.

        Raises:
            OSError: if it cannot be opened.
        """
        self._directory = directory
        self._path = directory / HOST_KEY_FILENAME
        self._key = key
        self._handle = os.open(self._path, os.O_RDONLY)
        self._is_given_up = False

    def write_back(self) -> None:
        """Write the key again if its file is gone, and others could not read that.

        Raises:
            OSError: if it cannot be written.
        """
        if self._path.exists():
            self._is_given_up = False
            self._open_replacement()
        elif not is_open_to_others(os.fstat(self._handle)):
            write_host_key_back(self._directory, self._key)
            self._open_replacement()
            log.warning("the host key was deleted, and is written again", path=str(self._directory))
        elif not self._is_given_up:
            self._is_given_up = True
            log.warning(
                "the host key was deleted, and is not written again",
                path=str(self._directory),
                reason="other users could read its file",
                remedy="restart the server: it makes a new key",
            )

    def _open_replacement(self) -> None:
        """Open the file that has the name now, if it is another."""
        if not NamedFile(self._path, self._handle).is_lost:
            return
        opened = os.open(self._path, os.O_RDONLY)
        os.close(self._handle)
        self._handle = opened

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)
