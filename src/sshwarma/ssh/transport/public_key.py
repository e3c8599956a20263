"""Public keys of people: accepted kinds, and parsing of lines operators add."""

from __future__ import annotations

from typing import cast

import asyncssh
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from sshwarma.common.limits import MAX_PUBLIC_KEY_CHARACTERS

RSA_KEY_BITS = (2048, 8192)
"""Minimum and maximum of RSA keys: weaker is forgeable, stronger costs milliseconds a signature."""


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


def parse_public_key(text: str) -> tuple[str, str, str]:
    """Parse a public key, as in `~/.ssh/id_ed25519.pub`: (fingerprint, key, comment).

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
