"""Host key files stay private."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from sshwarma.common.public_key import UnusableKey
from sshwarma.ssh.transport.host_key import (
    HOST_KEY_FILENAME,
    NEXT_KEY_FILENAME,
    OLD_KEY_FILENAME,
    UnusableHostKey,
    compute_fingerprint,
    create_next_host_key,
    load_host_key,
    load_host_keys,
    switch_host_key,
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


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        (HOST_KEY_FILENAME, "Put the right file there, or delete it: the next start"),
        (NEXT_KEY_FILENAME, "Put the right file there, or delete it: sshwarma host-key next"),
    ],
)
@pytest.mark.parametrize("is_file", [True, False])
def test_refusal_of_a_host_key_names_the_remedy(
    name: str, remedy: str, is_file: bool, tmp_path: Path
) -> None:
    load_host_key(tmp_path)
    path = tmp_path / name
    path.unlink(missing_ok=True)
    if is_file:
        path.write_bytes(b"junk")
        path.chmod(0o600)
    else:
        path.mkdir(mode=0o700)
    finding = f"{path} is not a usable private key: "
    with pytest.raises(UnusableHostKey, match=f"{finding}.*[^.]. {remedy}") as said:
        load_host_keys(tmp_path)
    assert "Errno" not in str(said.value)


@pytest.mark.process
def test_host_key_with_a_passphrase_is_refused_with_the_command(tmp_path: Path) -> None:
    path = tmp_path / HOST_KEY_FILENAME
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", path], check=True)
    said = f"Remove its passphrase: ssh-keygen -p -N '' -f {path}"
    with pytest.raises(UnusableHostKey, match=re.escape(said)):
        load_host_keys(tmp_path)


def test_host_key_is_made_and_changed_on_a_disk_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    load_host_key(tmp_path)
    first = (tmp_path / HOST_KEY_FILENAME).read_bytes()
    create_next_host_key(tmp_path)
    [_, announced] = load_host_keys(tmp_path)
    switch_host_key(tmp_path)
    assert compute_fingerprint(load_host_key(tmp_path)) == compute_fingerprint(announced)
    old = tmp_path / OLD_KEY_FILENAME
    assert (old.read_bytes(), stat.S_IMODE(old.stat().st_mode)) == (first, 0o600)
    assert sorted(file.name for file in tmp_path.iterdir()) == [HOST_KEY_FILENAME, old.name]
