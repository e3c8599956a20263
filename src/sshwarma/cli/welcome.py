"""The welcome of a server: host key, owner, models found, how to connect."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh
import structlog

from sshwarma.cli.printed_lines import print_lines
from sshwarma.settings import ModelSettings, find_local_host, split_address

if TYPE_CHECKING:
    from sshwarma.app import App

log = structlog.get_logger(__name__)


def say_welcome(app: App, offers: Sequence[ModelSettings]) -> None:
    """Say it on stderr: as text, or as log lines if the log is JSON."""
    if app.settings.log.format == "json":
        _log_welcome(app, offers)
    else:
        with contextlib.suppress(OSError):  # who cannot read it can log in nevertheless
            print_lines(_welcome_lines(app, offers), to_stderr=True)


def make_connect_command(app: App) -> str:
    """Return an ssh command for this machine; the key is of the agent it names."""
    host, port = split_address(app.ssh_address)
    identity = app.settings.data_dir / "operator_ed25519"
    user, option = _find_key_owner(app, identity), ""
    if user:
        option = f"-i {shlex.quote(str(identity))} "
    elif app.admitted_operator is not None:
        user = app.admitted_operator.name
    else:
        user = next(iter(_list_owners(app)), "NAME")
    return f"ssh {option}-p {port} {user}@{find_local_host(host)}"


def _welcome_lines(app: App, offers: Sequence[ModelSettings]) -> list[str]:
    lines = [f"Host key: {app.host_fingerprint()}"]
    operator = app.admitted_operator
    if operator is not None:
        keys = ", ".join(operator.fingerprints) or "no key"
        lines.append(f"First run: {operator.name} is the owner of this world, with {keys}.")
        if operator.identity is not None:
            lines.append(f"No ssh key found; created {operator.identity}")
    elif not _list_owners(app):
        lines.append(f"This world has no owner yet: {_first_owner_command(app)}")
    if offers:
        lines.append("Detected models. Add one with /model found, or in sshwarma.toml:")
    for offer in offers:
        table = f'[[models]]\nname = "{offer.name}"\nkind = "{offer.kind}"\nmodel = "{offer.model}"'
        lines += [f"  {text}" for text in table.split("\n")]
    lines.append(f"Connect:  {make_connect_command(app)}")
    return lines


def _log_welcome(app: App, offers: Sequence[ModelSettings]) -> None:
    log.info("host key", fingerprint=app.host_fingerprint())
    operator = app.admitted_operator
    if operator is not None:
        created = {"created": str(operator.identity)} if operator.identity else {}
        log.info("first run", owner=operator.name, keys=operator.fingerprints, **created)
    elif not _list_owners(app):
        log.warning("no owner yet", command=_first_owner_command(app))
    for offer in offers:
        log.info("detected model", name=offer.name, kind=offer.kind, model=offer.model)
    log.info("connect", command=make_connect_command(app))


def _list_owners(app: App) -> list[str]:
    return sorted(agent.name for agent in app.world.agents if agent.role == "owner")


def _first_owner_command(app: App) -> str:
    directory = shlex.quote(str(app.settings.data_dir))
    return f"sshwarma keys add NAME FILE --role owner --data-dir {directory}"


def _find_key_owner(app: App, identity: Path) -> str:
    """Return the name of the agent whose private key a file holds; "" if nobody's."""
    try:
        key = asyncssh.read_public_key(identity.with_suffix(".pub"))
    except (OSError, ValueError):
        return ""
    agent = app.world.agents.find_by_key(key.get_fingerprint())
    return agent.name if agent is not None else ""
