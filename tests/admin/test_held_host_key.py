"""The file of the host key under a running server, which others delete."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sshwarma.admin.host_keys import make_next_key, use_next_key
from sshwarma.admin.served_data_dir import ServedDataDir
from sshwarma.ssh.transport.host_key import (
    HOST_KEY_FILENAME,
    UnusableHostKey,
    compute_fingerprint,
    load_host_keys,
)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedDataDir]:
    with ServedDataDir(tmp_path / "world") as made:
        made.load_host_keys()
        yield made


async def test_key_that_others_could_read_is_not_written_again(served: ServedDataDir) -> None:
    leaked = compute_fingerprint(served.host_keys[0])
    path = served.path / HOST_KEY_FILENAME
    path.chmod(0o644)
    path.unlink()
    await served.check()
    assert not path.exists()
    served.load_host_keys()  # as at a start
    assert compute_fingerprint(served.host_keys[0]) != leaked
    path.unlink()
    await served.check()
    assert path.exists()  # this one was private


async def test_key_whose_file_was_replaced_is_written_again(served: ServedDataDir) -> None:
    path = served.path / HOST_KEY_FILENAME
    content = path.read_bytes()
    path.chmod(0o644)
    path.unlink()
    path.touch(mode=0o600)
    path.write_bytes(content)
    await served.check()
    path.unlink()
    await served.check()
    assert path.exists()


async def test_remedy_of_a_leaked_key_lets_a_running_server_use_another(
    served: ServedDataDir,
) -> None:
    leaked = compute_fingerprint(served.host_keys[0])
    path = served.path / HOST_KEY_FILENAME
    path.chmod(0o644)
    with pytest.raises(UnusableHostKey, match=r"chmod 600 .* host-key next, and .* switch --now"):
        load_host_keys(served.path)
    path.chmod(0o600)
    make_next_key(served.path)
    use_next_key(served.path, at_once=True)
    served.load_host_keys()
    await served.check()
    assert compute_fingerprint(load_host_keys(served.path)[0]) != leaked
