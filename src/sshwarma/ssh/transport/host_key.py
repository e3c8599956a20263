"""The server's host keys: the one in use, and the next one while it is announced.

Clients learn the next key from the server, after a login with the key in use, and store it: so that
a change of the key warns nobody who has connected meanwhile.
"""

from __future__ import annotations

import os
import shlex
import stat
import tempfile
from pathlib import Path

import asyncssh

from sshwarma.common.files import give_name
from sshwarma.common.public_key import UnusableKey

HOST_KEY_FILENAME = "ssh_host_ed25519_key"
NEXT_KEY_FILENAME = f"{HOST_KEY_FILENAME}.next"
OLD_KEY_FILENAME = f"{HOST_KEY_FILENAME}.old"


class UnusableHostKey(UnusableKey):
    """The file of a host key cannot be used.

    Attributes:
        finding: what is wrong.
        remedy: what makes it right, as a sentence.
    """

    def __init__(self, finding: str, remedy: str) -> None:
        super().__init__(f"{finding.removesuffix('.')}. {remedy}")
        self.finding = finding
        self.remedy = remedy


def load_host_keys(directory: Path) -> list[asyncssh.SSHKey]:
    """Return the server's host key and, if there is one, the next; create the first.

    Raises:
        UnusableHostKey: if one cannot be read, or others can read it.
    """
    next_path = directory / NEXT_KEY_FILENAME
    keys = [load_host_key(directory)]
    return [*keys, _read_host_key(next_path)] if next_path.exists() else keys


def load_host_key(directory: Path) -> asyncssh.SSHKey:
    """Return the server's host key; create it on the first run.

    Raises:
        UnusableHostKey: if it cannot be read, or others can read it.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / HOST_KEY_FILENAME
    if not path.exists():
        _create_host_key(path)
    return _read_host_key(path)


def write_host_key_back(directory: Path, key: asyncssh.SSHKey) -> None:
    """Write the key in use to its file, which is gone.

    Raises:
        OSError: if it cannot be written.
    """
    _write_key(key, directory / HOST_KEY_FILENAME)


def create_next_host_key(directory: Path) -> None:
    """Create the key that the server will use next.

    Raises:
        FileExistsError: if there is one already.
    """
    path = directory / NEXT_KEY_FILENAME
    if path.exists():
        raise FileExistsError(f"{path} exists.")
    _create_host_key(path)


def switch_host_key(directory: Path) -> None:
    """Make the next key the one in use; keep the old one in a file of its own.

    Raises:
        FileNotFoundError: if there is no next key, or none in use.
        UnusableHostKey: if it cannot be used; then nothing has changed.
    """
    path, next_path, old = (
        directory / name for name in (HOST_KEY_FILENAME, NEXT_KEY_FILENAME, OLD_KEY_FILENAME)
    )
    if not next_path.exists():
        raise FileNotFoundError(f"{next_path} does not exist.")
    _read_host_key(next_path)
    _write_draft(old, path.read_bytes()).replace(old)
    next_path.replace(path)  # at no moment is there no key


def is_open_to_others(file_stat: os.stat_result) -> bool:
    """Return whether the mode of a key file lets other users use it."""
    return bool(file_stat.st_mode & 0o077)


def _read_host_key(path: Path) -> asyncssh.SSHKey:
    """Return the key of a file.

    Raises:
        UnusableHostKey: if it cannot be read, or others can read it.
    """
    file_stat = path.stat()
    if is_open_to_others(file_stat):
        raise UnusableHostKey(
            f"{path} can be read by others (mode {stat.S_IMODE(file_stat.st_mode):04o})",
            f"Run: chmod 600 {shlex.quote(str(path))}. If others may have read it, then"
            f" {_describe_exchange(path)}",
        )
    try:
        return asyncssh.read_private_key(path)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        reason, remedy = str(error), _describe_right_file(path)
        if "passphrase" in reason.lower():
            remedy = f"Remove its passphrase: ssh-keygen -p -N '' -f {shlex.quote(str(path))}"
    except OSError as error:
        reason, remedy = error.strerror or str(error), _describe_right_file(path)
    raise UnusableHostKey(f"{path} is not a usable private key: {reason}", remedy)


def _describe_right_file(path: Path) -> str:
    return f"Put the right file there, or {_describe_deletion(path)}"


def _describe_deletion(path: Path) -> str:
    """Return what it means to delete the file of a key."""
    if path.name == NEXT_KEY_FILENAME:
        return "delete it: sshwarma host-key next makes another."
    return (
        "delete it: the next start makes a new key, and clients warn of a changed host key. A"
        " running server writes the key that it has."
    )


def _describe_exchange(path: Path) -> str:
    """Return how another key takes the place of one that others know.

    To delete the one in use is no way: a running server would write it again.
    """
    if path.name == NEXT_KEY_FILENAME:
        return _describe_deletion(path)
    return (
        "use another key: sshwarma host-key next, and sshwarma host-key switch --now. Clients warn"
        " of a changed host key."
    )


def compute_fingerprint(key: asyncssh.SSHKey) -> str:
    """Return a key's fingerprint as `ssh` shows it: SHA256:..."""
    return key.get_fingerprint()


def _create_host_key(path: Path) -> None:
    """Write a new key file."""
    _write_key(asyncssh.generate_private_key("ssh-ed25519", comment="sshwarma"), path)


def _write_key(key: asyncssh.SSHKey, path: Path) -> None:
    """Write a key file atomically, never readable by others; one that is there stays."""
    draft = _write_draft(path, key.export_private_key("openssh"))
    try:
        # A second server that starts at the same moment may have made one.
        give_name(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)


def _write_draft(path: Path, content: bytes) -> Path:
    """Write what shall be in a file to another one beside it; return that."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)  # made with mode 0600
    except OSError as error:  # people know this name, and not that of the draft
        error.filename = str(path)
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:  # such as a full disk
        Path(name).unlink()
        error.filename = str(path)
        raise
    return Path(name)
