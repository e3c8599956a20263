"""`sshwarma serve`: run the server until SIGTERM or SIGINT."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from sshwarma.cli.invocation import Invocation, is_default_directory, with_invocation
from sshwarma.common.exit_status import EXIT_OK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sshwarma.app import App
    from sshwarma.settings import ModelSettings, Settings


@click.command()
@click.option("--listen", metavar="HOST:PORT", help="Address of the ssh server.")
@click.option("--http", metavar="HOST:PORT|off", help="Address of /healthz, /metrics, /api, /mcp.")
@click.option(
    "--registration",
    type=click.Choice(["closed", "invite", "open"]),
    help="Who may log in with a new key: nobody, holders of an invite, anyone.",
)
@with_invocation
def serve(
    invocation: Invocation, listen: str | None, http: str | None, registration: str | None
) -> int:
    """Run the server."""
    from sshwarma.settings.logs import configure_logging

    flags: dict[str, Any] = {
        section: {key: value}
        for section, key, value in (
            ("ssh", "listen", listen),
            ("http", "listen", http),
            ("registration", "mode", registration),
        )
        if value is not None
    }
    settings = invocation.settings(**flags)
    check_second_world(settings)
    configure_logging(settings.log)
    import uvloop

    return uvloop.run(_serve_until_signal(settings))


def check_second_world(settings: Settings) -> None:
    """Refuse to make a world in the default directory beside a server that runs.

    Raises:
        Conflict: with the directory of that server's world.
    """
    from sshwarma.admin.running_worlds import find_running_worlds
    from sshwarma.world.errors import Conflict

    if not is_default_directory(settings) or settings.database.exists():
        return
    running = find_running_worlds()
    if running:
        raise Conflict(
            f"A server is running already, with the world in {', '.join(map(str, running))}, and"
            f" {settings.data_dir} contains none.",
            hint=f"To make a second world, name its directory: --data-dir {settings.data_dir}",
        )


async def _serve_until_signal(settings: Settings) -> int:
    import asyncio

    from sshwarma.app import App
    from sshwarma.models.discover import discover_models

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    app = await App.start(settings)
    # Objects that exist now live until the end: exclude them from garbage collection.
    gc.collect()
    gc.freeze()
    try:
        _print_welcome(app, [] if settings.models else await discover_models(os.environ))
        print(f"ready ssh={app.ssh_address} http={app.http_address}", flush=True)
        await stop.wait()
    finally:
        await app.stop()
    return EXIT_OK


def _print_welcome(app: App, offers: Sequence[ModelSettings]) -> None:
    """Print the host key, the owner, detected models and the ssh command on stderr."""
    host, _, port = app.ssh_address.rpartition(":")
    lines = [f"Host key: {app.host_fingerprint()}"]
    user = "NAME"
    identity = app.settings.data_dir / "operator_ed25519"
    if app.admitted_operator is not None:
        user = app.admitted_operator.name
        keys = ", ".join(app.admitted_operator.fingerprints) or "no key"
        lines.append(f"First run: {user} is the owner of this world, with {keys}.")
        if app.admitted_operator.identity is not None:
            lines.append(f"No ssh key found; created {identity}")
    else:
        owners = sorted(agent.name for agent in app.world.agents if agent.role == "owner")
        user = _find_key_owner(app, identity) or (owners[0] if owners else user)
        if not owners:
            lines.append(
                "Nobody can log in yet: sshwarma keys add NAME FILE --role owner"
                f" --data-dir {shlex.quote(str(app.settings.data_dir))}"
            )
    if offers:
        lines.append("Detected models. Add one with /model found, or in sshwarma.toml:")
    for offer in offers:
        table = f'[[models]]\nname = "{offer.name}"\nkind = "{offer.kind}"\nmodel = "{offer.model}"'
        lines += [f"  {text}" for text in table.split("\n")]
    with_key = f"-i {identity} " if identity.exists() else ""
    lines.append(f"Connect:  ssh {with_key}-p {port} {user}@{host}")
    print(*lines, sep="\n", file=sys.stderr, flush=True)


def _find_key_owner(app: App, identity: Path) -> str:
    """Return the name of the agent whose private key a file holds; "" if nobody's."""
    import asyncssh

    try:
        key = asyncssh.read_public_key(identity.with_suffix(".pub"))
    except (OSError, ValueError):
        return ""
    agent = app.world.agents.find_by_key(key.get_fingerprint())
    return agent.name if agent is not None else ""
