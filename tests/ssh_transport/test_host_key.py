"""Key files stay private; public key lines are read, or refused with a reason."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import asyncssh
import pytest

from sshwarma.ssh.transport.host_key import (
    HOST_KEY_FILENAME,
    UnusableKey,
    compute_fingerprint,
    load_host_key,
    parse_public_key,
)


def test_first_start_creates_a_key_and_the_next_loads_it(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        first = load_host_key(tmp_path / "data")
    finally:
        os.umask(old)
    path = tmp_path / "data" / HOST_KEY_FILENAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert first.get_algorithm() == "ssh-ed25519"
    assert compute_fingerprint(load_host_key(tmp_path / "data")) == compute_fingerprint(first)
    assert compute_fingerprint(first).startswith("SHA256:")
    assert [file.name for file in path.parent.iterdir()] == [HOST_KEY_FILENAME]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_host_key_readable_by_others_is_refused(mode: int, tmp_path: Path) -> None:
    load_host_key(tmp_path)
    (tmp_path / HOST_KEY_FILENAME).chmod(mode)
    with pytest.raises(UnusableKey, match=f"can be read by others .*{mode:04o}"):
        load_host_key(tmp_path)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"ssh-ed25519 AAAA"])
def test_invalid_host_key_is_refused_and_kept(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / HOST_KEY_FILENAME
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(UnusableKey, match="not a usable private key"):
        load_host_key(tmp_path)
    assert path.read_bytes() == content


def _public(kind: str, **options: int) -> tuple[asyncssh.SSHKey, str]:
    key = asyncssh.generate_private_key(kind, comment="a b@c", **options)
    return key, key.export_public_key("openssh").decode()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("ssh-ed25519", {}),
        ("ecdsa-sha2-nistp256", {}),
        ("ecdsa-sha2-nistp384", {}),
        ("ecdsa-sha2-nistp521", {}),
        ("ssh-rsa", {"key_size": 2048}),
    ],
)
def test_public_key_line_is_parsed(kind: str, options: dict[str, int]) -> None:
    key, line = _public(kind, **options)
    read = parse_public_key(f"# mine\n\n{line}\n")
    assert read == (key.get_fingerprint(), " ".join(line.split()[:2]), "a b@c")


@pytest.mark.parametrize(
    "line",
    [
        "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIJ9ySHtTaLFNHyjt"
        "ax8dmxqsVUKXpOTJkyGSRvEIMcOPAAAABHNzaDo= yubi",
    ],
)
def test_security_key_line_is_parsed(line: str) -> None:
    assert parse_public_key(line)[2] == "yubi"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "found 0 lines"),
        ("nonsense", "not an OpenSSH public key"),
        ("ssh-ed25519 AAAA", "not an OpenSSH public key"),
        ("ssh-ed25519 \0\x1b[2J", "not an OpenSSH public key"),
        ("x" * 20_000, "20000 characters"),
        (
            asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode(),
            "is a private",
        ),
        (_public("ssh-ed25519")[1] + _public("ssh-ed25519")[1], "found 2 lines"),
        (_public("ssh-rsa", key_size=1024)[1], "RSA of 2048 to 8192 bits"),
        (_public("ssh-dss")[1], "ssh-dss keys of this strength are not accepted"),
    ],
    ids=["none", "words", "short", "escape", "long", "private", "two", "weak", "dsa"],
)
def test_invalid_public_key_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(UnusableKey, match=reason):
        parse_public_key(text)
