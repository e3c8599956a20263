"""The host keys of `sshwarma host-key`, and their change without a warning."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import asyncssh
import structlog

from sshwarma.admin.host_key_announcement import forget_announcement, read_announcement
from sshwarma.admin.owners_in_file import was_logged_in_to
from sshwarma.admin.world_place import find_place
from sshwarma.common.limits import MIN_HOST_KEY_OVERLAP_SECONDS
from sshwarma.common.public_key import UnusableKey
from sshwarma.common.times import format_iso
from sshwarma.settings import DATABASE_NAME, Settings
from sshwarma.ssh.transport.host_key import (
    HOST_KEY_FILENAME,
    NEXT_KEY_FILENAME,
    compute_fingerprint,
    create_next_host_key,
    load_host_keys,
    switch_host_key,
)
from sshwarma.world.errors import Conflict, NotFound

log = structlog.get_logger(__name__)


def describe_host_keys(data_dir: Path) -> dict[str, Any]:
    """Return the key in use and the next one, each with fingerprint and public key.

    The next one has the times at which it was made and since which it is announced, too.

    Raises:
        NotFound: if there is no key.
        Conflict: if a key cannot be used, with the reason.
    """
    _check_key_exists(data_dir)
    try:
        keys = load_host_keys(data_dir)
    except UnusableKey as error:
        raise Conflict(str(error)) from error
    described = [_describe_key(key) for key in keys]
    if len(described) == 1:
        return {"current": described[0], "next": None}
    made_at = (data_dir / NEXT_KEY_FILENAME).stat().st_mtime
    announced_since = read_announcement(data_dir, described[1]["fingerprint"])
    times = {
        "made_at": format_iso(int(made_at * 1000)),
        "announced_since": None
        if announced_since is None
        else format_iso(int(announced_since * 1000)),
    }
    return {"current": described[0], "next": described[1] | times}


def describe_new_next_key(keys: dict[str, Any]) -> str:
    """Return the command that created a next key, for the audit."""
    return f"host-key next {keys['next']['fingerprint']}"


def describe_switched_key(keys: dict[str, Any], at_once: bool = False) -> str:
    """Return the command that put a key in use, for the audit.

    `at_once` says that clients may not have learned it.
    """
    return f"host-key switch {'--now ' if at_once else ''}{keys['current']['fingerprint']}"


def warn_of_missing_key(settings: Settings) -> None:
    """Log a warning if clients know a host key of a world which has none now."""
    path = settings.data_dir / HOST_KEY_FILENAME
    if not path.exists() and was_logged_in_to(find_place(settings)):
        log.warning("the host key was missing: clients warn of the new one", path=str(path))


def make_next_key(data_dir: Path) -> dict[str, Any]:
    """Create the next host key.

    Raises:
        Conflict: if there is one already.
        NotFound: if the key in use is missing.
    """
    _check_key_exists(data_dir)
    try:
        create_next_host_key(data_dir)
    except FileExistsError:
        raise Conflict(
            "There is a next host key already.", hint="sshwarma host-key switch uses it."
        ) from None
    return describe_host_keys(data_dir)


def use_next_key(
    data_dir: Path, *, at_once: bool = False, announced: Collection[str] | None = None
) -> dict[str, Any]:
    """Make the next host key the one in use.

    Args:
        data_dir: has the keys.
        at_once: also if clients have had no time to learn it.
        announced: fingerprints that the running server announces; None if none is running.

    Raises:
        Conflict: if there is no next key, or clients cannot have learned it.
        NotFound: if the key in use is missing.
        Conflict: if it cannot be used; then nothing has changed.
    """
    _check_key_exists(data_dir)
    try:
        if not at_once:
            _check_overlap(data_dir, announced)
        switch_host_key(data_dir)
        forget_announcement(data_dir)
    except FileNotFoundError:
        raise Conflict(
            "There is no next host key.",
            hint="sshwarma host-key next creates it. Switch when people have connected since.",
        ) from None
    except UnusableKey as error:
        raise Conflict(str(error)) from error
    return describe_host_keys(data_dir)


def _check_key_exists(data_dir: Path) -> None:
    """Check that there is a key in use.

    Raises:
        NotFound: if not, with what that means.
    """
    path = data_dir / HOST_KEY_FILENAME
    if path.exists():
        return
    if was_logged_in_to(data_dir / DATABASE_NAME):
        raise NotFound(
            f"{path} is missing: the next start makes another key, and clients warn of it.",
            hint="Put the key of this world back, if there is a copy.",
        )
    raise NotFound("There is no host key yet. The server makes it at its first start.")


def _check_overlap(data_dir: Path, announced: Collection[str] | None) -> None:
    """Check that clients have had time to learn the next key.

    Raises:
        Conflict: if not.
        FileNotFoundError: if it does not exist.
    """
    next_key = describe_host_keys(data_dir)["next"]
    if next_key is None:
        raise FileNotFoundError
    fingerprint = next_key["fingerprint"]
    if announced is not None and fingerprint not in announced:
        raise Conflict(
            f"The running server has not announced the next host key, {fingerprint}: all clients"
            " would warn of a changed key.",
            hint="Restart the server, and switch some days later; or switch at once: --now",
        )
    since = read_announcement(data_dir, fingerprint)
    if since is None:
        raise Conflict(
            f"No server has announced the next host key, {fingerprint}: all clients would warn of"
            " a changed key.",
            hint="Start the server, and switch some days later; or switch at once: --now",
        )
    if time.time() - since < MIN_HOST_KEY_OVERLAP_SECONDS:
        began = format_iso(int(since * 1000))[:16].replace("T", " ")
        raise Conflict(
            f"The next host key has been announced for less than a day, since {began} UTC: clients"
            " that have not logged in since would warn of a changed key.",
            hint="Switch some days later, or at once: sshwarma host-key switch --now",
        )


def _describe_key(key: asyncssh.SSHKey) -> dict[str, str]:
    return {
        "fingerprint": compute_fingerprint(key),
        "public_key": key.export_public_key("openssh").decode().strip(),
    }
