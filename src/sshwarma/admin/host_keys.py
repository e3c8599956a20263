"""The host keys of `sshwarma host-key`, and their change without a warning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import asyncssh
import structlog

from sshwarma.admin.owners_in_file import was_logged_in_to
from sshwarma.settings import Settings
from sshwarma.ssh.transport.host_key import (
    HOST_KEY_FILENAME,
    compute_fingerprint,
    create_next_host_key,
    load_host_keys,
    switch_host_key,
)
from sshwarma.ssh.transport.public_key import UnusableKey
from sshwarma.world.errors import Conflict, Invalid, NotFound

log = structlog.get_logger(__name__)


def describe_host_keys(data_dir: Path) -> dict[str, Any]:
    """Return the key in use and the next one, each with fingerprint and public key.

    Raises:
        NotFound: if the server has made no key yet.
        Invalid: if a key cannot be used, with the reason.
    """
    if not (data_dir / HOST_KEY_FILENAME).exists():
        raise NotFound("There is no host key yet. The server makes it at its first start.")
    try:
        keys = load_host_keys(data_dir)
    except UnusableKey as error:
        raise Invalid(str(error)) from error
    described = [_describe_key(key) for key in keys]
    return {"current": described[0], "next": described[1] if len(described) > 1 else None}


def describe_new_next_key(keys: dict[str, Any]) -> str:
    """Return the command that created a next key, for the audit."""
    return f"host-key next {keys['next']['fingerprint']}"


def describe_switched_key(keys: dict[str, Any]) -> str:
    """Return the command that put a key in use, for the audit."""
    return f"host-key switch {keys['current']['fingerprint']}"


def warn_of_missing_key(settings: Settings) -> None:
    """Log a warning if clients know a host key of a world which has none now."""
    path = settings.data_dir / HOST_KEY_FILENAME
    if not path.exists() and was_logged_in_to(settings.database):
        log.warning("the host key was missing: clients warn of the new one", path=str(path))


def make_next_key(data_dir: Path) -> dict[str, Any]:
    """Create the next host key.

    Raises:
        Conflict: if there is one already.
    """
    try:
        create_next_host_key(data_dir)
    except FileExistsError:
        raise Conflict(
            "There is a next host key already.", hint="sshwarma host-key switch uses it."
        ) from None
    return describe_host_keys(data_dir)


def use_next_key(data_dir: Path) -> dict[str, Any]:
    """Make the next host key the one in use.

    Raises:
        Conflict: if there is no next key.
        Invalid: if it cannot be used; then nothing has changed.
    """
    try:
        switch_host_key(data_dir)
    except FileNotFoundError:
        raise Conflict(
            "There is no next host key.",
            hint="sshwarma host-key next creates it. Switch when people have connected since.",
        ) from None
    except UnusableKey as error:
        raise Invalid(str(error)) from error
    return describe_host_keys(data_dir)


def _describe_key(key: asyncssh.SSHKey) -> dict[str, str]:
    return {
        "fingerprint": compute_fingerprint(key),
        "public_key": key.export_public_key("openssh").decode().strip(),
    }
