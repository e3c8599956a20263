"""Public keys of people: accepted kinds, and parsing of lines and files."""

from __future__ import annotations

from typing import Final, TypeAlias, cast

import asyncssh
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from sshwarma.common.limits import MAX_PUBLIC_KEY_CHARACTERS, MAX_PUBLIC_KEY_FILE_CHARACTERS
from sshwarma.common.reported_error import ReportedError

RSA_KEY_BITS = (2048, 8192)
"""Minimum and maximum of RSA keys: weaker is forgeable, stronger costs milliseconds a signature."""

CERTIFICATE_SUFFIX: Final = "-cert-v01@openssh.com"
"""How the kind of a certificate ends; before it stands the kind of its key."""

MAX_SHOWN_OPTION_CHARACTERS: Final = 40
"""Characters of an option of an authorized_keys file that a refusal repeats."""

EXAMPLE_KEY: Final = "ssh-ed25519 AAAA... you@host"
"""What a line of a .pub file looks like."""

ParsedKey: TypeAlias = tuple[str, str, str]
"""The fingerprint, the key in OpenSSH format, and the comment."""

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


class UnusableKey(ReportedError):
    """A key cannot be used; the message says why and what to do."""


def parse_public_key(text: str) -> ParsedKey:
    """Parse a public key, as in `~/.ssh/id_ed25519.pub`: (fingerprint, key, comment).

    The key returned is in OpenSSH format without options or comment. Blank lines and lines that
    start with `#` are skipped.

    Raises:
        UnusableKey: if the text is not exactly one key of an accepted kind.
    """
    keys = parse_public_keys(text)
    if len(keys) > 1:
        raise UnusableKey(f"expected one public key, found {len(keys)}")
    return keys[0]


def parse_public_keys(text: str) -> list[ParsedKey]:
    """Parse public keys, one a line, as in an authorized_keys file without options.

    A key that stands there twice is returned once.

    Raises:
        UnusableKey: if there is no key, or one line is not a key of an accepted kind.
    """
    if len(text) > MAX_PUBLIC_KEY_FILE_CHARACTERS:
        raise UnusableKey(
            f"too long for public keys ({len(text)} characters,"
            f" limit {MAX_PUBLIC_KEY_FILE_CHARACTERS})"
        )
    if "PRIVATE KEY" in text:
        raise UnusableKey("this is a private key; use the file whose name ends in .pub")
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not lines:
        raise UnusableKey("found no public key" if text.strip() else "it is empty")
    keys: dict[str, ParsedKey] = {}
    for number, line in lines:
        try:
            key = _parse_line(line)
        except UnusableKey as error:
            if len(lines) == 1:
                raise
            raise UnusableKey(f"line {number}: {error}") from error
        keys.setdefault(key[0], key)
    return list(keys.values())


def _parse_line(line: str) -> ParsedKey:
    if len(line) > MAX_PUBLIC_KEY_CHARACTERS:
        raise UnusableKey(
            f"too long for a public key ({len(line)} characters, limit {MAX_PUBLIC_KEY_CHARACTERS})"
        )
    words = line.split()
    if words[0].endswith(CERTIFICATE_SUFFIX):
        raise UnusableKey(
            "this is a certificate; add the plain key, from the file without -cert in its name"
        )
    if words[0] not in PUBLIC_KEY_ALGORITHMS and any(
        word.removesuffix(CERTIFICATE_SUFFIX) in PUBLIC_KEY_ALGORITHMS for word in words
    ):
        raise UnusableKey(
            f"options such as {words[0].partition('=')[0][:MAX_SHOWN_OPTION_CHARACTERS]!a} do not"
            " apply here; remove what stands before the kind of key"
        )
    try:
        # Bytes, because asyncssh takes a text in ASCII alone, and comments have names in.
        key = asyncssh.import_public_key(line.encode("utf-8", "replace"))
    except (asyncssh.KeyImportError, ValueError) as error:
        raise UnusableKey(
            f"not an OpenSSH public key such as: {EXAMPLE_KEY}{_describe_damage(words)}"
        ) from error
    if not is_acceptable_key(key):
        raise UnusableKey(
            f"{key.get_algorithm()} keys of this strength are not accepted: use ed25519, ecdsa, "
            f"a security key, or RSA of {RSA_KEY_BITS[0]} to {RSA_KEY_BITS[1]} bits"
        )
    openssh = key.export_public_key("openssh").decode("utf-8", "replace").split()
    comment = (key.get_comment_bytes() or b"").decode("utf-8", "replace")
    return key.get_fingerprint(), " ".join(openssh[:2]), comment


def _describe_damage(words: list[str]) -> str:
    """Say what is wrong with a line that begins as a key does; "" for any other."""
    if words[0] not in PUBLIC_KEY_ALGORITHMS:
        return ""
    if len(words) == 1:
        return f"; nothing follows {words[0]}"
    return f"; what follows {words[0]} is cut or damaged"


def is_acceptable_key(key: asyncssh.SSHKey) -> bool:
    """Return whether a public key is of an accepted kind and strength."""
    if key.get_algorithm() not in PUBLIC_KEY_ALGORITHMS:
        return False
    if key.get_algorithm() == "ssh-rsa":
        bits = cast("RSAPublicKey", key.pyca_key).key_size
        return RSA_KEY_BITS[0] <= bits <= RSA_KEY_BITS[1]
    return True
