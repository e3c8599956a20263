"""The server's host key file, and parsing of public keys that operators add."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import cast

import asyncssh
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from sshwarma.common.limits import MAX_PUBLIC_KEY_CHARACTERS

HOST_KEY_FILENAME = "ssh_host_ed25519_key"

RSA_KEY_BITS = (2048, 8192)
"""Smallest and largest RSA key: weaker is forgeable, stronger costs milliseconds a signature."""

PUBLIC_KEY_ALGORITHMS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
"""Accepted kinds of public key; for RSA this names the key, not its SHA-1 signature."""


class UnusableKey(Exception):
    """A key cannot be used; the message says why and what to do."""


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


def parse_public_key(text: str) -> tuple[str, str, str]:
    """Parse one public key, as in `~/.ssh/id_ed25519.pub`: (fingerprint, key, comment).

    The key returned is in OpenSSH format without options or comment. Blank lines and lines that
    start with `#` are skipped.

    Raises:
        UnusableKey: if the text is not exactly one key of an accepted kind.
    """
    if len(text) > MAX_PUBLIC_KEY_CHARACTERS:
        raise UnusableKey(
            f"too long for a public key ({len(text)} characters, limit {MAX_PUBLIC_KEY_CHARACTERS})"
        )
    if "PRIVATE KEY" in text:
        raise UnusableKey("this is a private key; use the file whose name ends in .pub")
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(lines) != 1:
        raise UnusableKey(f"expected one public key on one line, found {len(lines)} lines")
    try:
        key = asyncssh.import_public_key(lines[0])
    except (asyncssh.KeyImportError, ValueError) as error:
        raise UnusableKey(
            "not an OpenSSH public key such as: ssh-ed25519 AAAA... you@host"
        ) from error
    if not is_acceptable_key(key):
        raise UnusableKey(
            f"{key.get_algorithm()} keys of this strength are not accepted: use ed25519, ecdsa, "
            f"a security key, or RSA of {RSA_KEY_BITS[0]} to {RSA_KEY_BITS[1]} bits"
        )
    openssh = key.export_public_key("openssh").decode("utf-8", "replace").split()
    comment = (key.get_comment_bytes() or b"").decode("utf-8", "replace")
    return key.get_fingerprint(), " ".join(openssh[:2]), comment


def is_acceptable_key(key: asyncssh.SSHKey) -> bool:
    """Return whether a public key is of an accepted kind and strength."""
    if key.get_algorithm() not in PUBLIC_KEY_ALGORITHMS:
        return False
    if key.get_algorithm() == "ssh-rsa":
        bits = cast("RSAPublicKey", key.pyca_key).key_size
        return RSA_KEY_BITS[0] <= bits <= RSA_KEY_BITS[1]
    return True


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
