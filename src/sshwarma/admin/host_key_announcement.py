"""When the server began to announce the next host key to clients.

They can know it since then. The time of the key's file does not say that: the server may have been
down, or the file may have been put there by hand. So the server writes it into a file beside it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import asyncssh
import structlog

from sshwarma.common.os_errors import describe_os_error
from sshwarma.ssh.transport.host_key import NEXT_KEY_FILENAME, compute_fingerprint

log = structlog.get_logger(__name__)

ANNOUNCEMENT_FILENAME: Final = f"{NEXT_KEY_FILENAME}.announced"


def record_announcement(directory: Path, keys: Sequence[asyncssh.SSHKey]) -> None:
    """Write that a server announces the next of its keys from now on.

    The record of another key is removed. A key whose announcement is recorded already keeps its
    time. A failure is logged: the key then counts as one that was never announced.
    """
    try:
        if len(keys) < 2:
            forget_announcement(directory)
        elif read_announcement(directory, fingerprint := compute_fingerprint(keys[1])) is None:
            _write_announcement(directory, fingerprint)
    except OSError as error:
        reason = describe_os_error(error)
        log.warning("the announcement of the next host key is not recorded", reason=reason)


def read_announcement(directory: Path, fingerprint: str) -> float | None:
    """Return since when a key is announced; None if it never was.

    In seconds since 1970.
    """
    try:
        recorded = json.loads((directory / ANNOUNCEMENT_FILENAME).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:  # it was changed by hand
        return None
    match recorded:
        case {"fingerprint": str(of_key), "since": int(since) | float(since)}:
            return since if of_key == fingerprint else None
    return None


def forget_announcement(directory: Path) -> None:
    """Remove the record of a key that is no longer the next one.

    Raises:
        OSError: if it cannot be removed.
    """
    (directory / ANNOUNCEMENT_FILENAME).unlink(missing_ok=True)


def _write_announcement(directory: Path, fingerprint: str) -> None:
    path = directory / ANNOUNCEMENT_FILENAME
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(json.dumps({"fingerprint": fingerprint, "since": time.time()}))
    draft.replace(path)
