"""Public key lines are read, or refused with a reason."""

from __future__ import annotations

import asyncssh
import pytest

from sshwarma.common.public_key import (
    UnusableKey,
    parse_public_key,
    parse_public_keys,
)


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


def test_comment_may_have_any_letters() -> None:
    line = _public("ssh-ed25519")[1].replace("a b@c", "josé@büro \N{SNOWMAN}")
    assert parse_public_key(line)[2] == "josé@büro \N{SNOWMAN}"


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
        ("", "it is empty"),
        ("# only a comment\n", "found no public key"),
        ("nonsense", "not an OpenSSH public key"),
        ("ssh-ed25519", "; nothing follows ssh-ed25519$"),
        ("ssh-ed25519 AAAA", "you@host; what follows ssh-ed25519 is cut or damaged$"),
        ("ssh-ed25519 \0\x1b[2J", "not an OpenSSH public key"),
        ("x" * 20_000, "20000 characters"),
        ("x" * 50_000, "too long for public keys .50000 characters"),
        (f"ssh-ed25519-cert-v01@openssh.com AAAA {'x' * 9}", "is a certificate; add the plain key"),
        ('command="ls" ' + _public("ssh-ed25519")[1], "options such as 'command' do not apply"),
        (
            asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode(),
            "is a private",
        ),
        (_public("ssh-ed25519")[1] + _public("ssh-ed25519")[1], "found 2"),
        (_public("ssh-rsa", key_size=1024)[1], "RSA of 2048 to 8192 bits"),
        (_public("ssh-dss")[1], "ssh-dss keys of this strength are not accepted"),
    ],
    ids=[
        "none",
        "comment",
        "words",
        "kind",
        "short",
        "escape",
        "long",
        "longest",
        "certificate",
        "options",
        "private",
        "two",
        "weak",
        "dsa",
    ],
)
def test_invalid_public_key_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(UnusableKey, match=reason):
        parse_public_key(text)


def test_file_of_several_keys_is_read_as_an_authorized_keys_file() -> None:
    one, two = _public("ssh-ed25519")[1], _public("ssh-rsa", key_size=2048)[1]
    found = parse_public_keys(f"# alice\n{one}\n\r\n{two}{one}")
    assert found == [parse_public_key(one), parse_public_key(two)]
    with pytest.raises(UnusableKey, match=r"^line 3: not an OpenSSH public key"):
        parse_public_keys(f"{one}\nnonsense\n{two}")
