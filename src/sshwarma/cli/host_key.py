"""`sshwarma host-key`: shows the host key, and changes it without a warning."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sshwarma.cli.invocation import Invocation, with_invocation
from sshwarma.cli.times import draw_time

if TYPE_CHECKING:
    from sshwarma.settings import Settings


@click.group("host-key")
def host_key() -> None:
    """Show the server's host key, and change it without a warning.

    `next` creates a key, which clients learn when they log in: OpenSSH stores it in its
    known_hosts, by its option UpdateHostKeys. After some days `switch` uses it. Only those who
    have not connected in between are warned.
    """


@host_key.command()
@with_invocation
def show(invocation: Invocation) -> int:
    """Print the fingerprint of the key in use, and of the next one."""
    from sshwarma.admin.data_dir_owner import check_data_dir_owner
    from sshwarma.admin.host_keys import describe_host_keys

    settings = invocation.world_settings()
    check_data_dir_owner(settings.data_dir)
    keys = describe_host_keys(settings.data_dir)
    invocation.print_unnamed_world(settings)
    return invocation.show(keys, *_list_keys(keys))


@host_key.command("next")
@with_invocation
def create_next(invocation: Invocation) -> int:
    """Create the next key, and announce it to clients that log in."""
    from sshwarma.admin.host_keys import describe_new_next_key, make_next_key

    keys = invocation.change_with_or_without_server(
        "host_key_next",
        lambda settings: _with_lock(settings, make_next_key),
        describe_new_next_key,
    )
    return invocation.show(
        keys,
        *_list_keys(keys),
        "Clients learn the next key when they log in. Some days later, use it: sshwarma host-key"
        " switch",
    )


@host_key.command()
@click.option("--now", is_flag=True, help="Also if clients have had no time to learn the key.")
@with_invocation
def switch(invocation: Invocation, now: bool) -> int:
    """Use the next key for new connections; the old one is kept in a file.

    Refused until the server has announced the next key for a day.
    """
    from sshwarma.admin.host_keys import describe_switched_key, use_next_key
    from sshwarma.ssh.transport.host_key import OLD_KEY_FILENAME

    keys = invocation.change_with_or_without_server(
        "host_key_switch",
        lambda settings: _with_lock(settings, partial(use_next_key, at_once=now)),
        partial(describe_switched_key, at_once=now),
        **({"at_once": True} if now else {}),  # which an older server does not know
    )
    return invocation.show(
        keys,
        *_list_keys(keys),
        f"The old key is kept: {OLD_KEY_FILENAME}. Delete it when you need not go back.",
    )


def _with_lock(settings: Settings, change: Callable[[Path], Any]) -> Any:
    """Change the keys of a world whose server is not running."""
    from sshwarma.admin.data_dir_lock import lock_when_free

    with lock_when_free(settings.data_dir):
        return change(settings.data_dir)


def _list_keys(keys: dict[str, Any]) -> list[str]:
    lines = [f"In use: {keys['current']['fingerprint']}"]
    if keys["next"] is not None:
        made = draw_time(keys["next"]["made_at"])
        since = keys["next"].get("announced_since")  # which an older server does not say
        state = f"announced since {draw_time(since)}" if since else "not announced yet"
        lines.append(f"Next:   {keys['next']['fingerprint']}  made {made}, {state}")
    return lines
