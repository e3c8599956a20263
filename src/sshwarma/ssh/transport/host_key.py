"""The server's host key file."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import asyncssh

from sshwarma.ssh.transport.public_key import UnusableKey

HOST_KEY_FILENAME = "ssh_host_ed25519_key"


def load_host_key(directory: Path) -> asyncssh.SSHKey:
    """Return the server's host key; create it on the first run.

    Raises:
        UnusableKey: if it cannot be read, or others can read it.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / HOST_KEY_FILENAME
    if not path.exists():
        _create_host_key(path)
    file_stat = path.stat()
    other_bits = stat.S_IMODE(file_stat.st_mode) & 0o077
    if other_bits:
        raise UnusableKey(
            f"{path} can be read by others (mode {stat.S_IMODE(file_stat.st_mode):04o}). "
            f"If nobody has read it, run: chmod 600 {path}. Otherwise delete it: the next start "
            "makes a new key, and clients warn that the host key has changed."
        )
    try:
        return asyncssh.read_private_key(path)
    except (OSError, asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise UnusableKey(f"{path} is not a usable private key: {error}") from error


def compute_fingerprint(key: asyncssh.SSHKey) -> str:
    """Return a key's fingerprint as `ssh` shows it: SHA256:..."""
    return key.get_fingerprint()


def _create_host_key(path: Path) -> None:
    """Write a new key file atomically, never readable by others."""
    key = asyncssh.generate_private_key("ssh-ed25519", comment="sshwarma")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)  # made with mode 0600
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(key.export_private_key("openssh"))
            file.flush()
            os.fsync(file.fileno())
        # Linking, unlike renaming, keeps an existing key if a second server starts at the same
        # moment.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
