"""`sshwarma doctor`: finds problems of an installation, and says how to fix them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import socket
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError

from sshwarma.admin import control_socket, data_dir_lock, data_dir_owner
from sshwarma.common.units import MIB
from sshwarma.models.backend import BackendError
from sshwarma.models.prices import COST_LIMITS, is_price_known
from sshwarma.models.roster import describe_model
from sshwarma.models.secrets import read_key
from sshwarma.settings import (
    ModelSettings,
    Settings,
    default_config_file,
    is_loopback,
    split_address,
)
from sshwarma.world.agents import read_agents
from sshwarma.world.errors import Invalid, WorldError
from sshwarma.world.migrate import known_revisions, newest_revision, read_file_revision
from sshwarma.world.names import check_name
from sshwarma.world.owners import count_usable_owners

MIN_FREE_BYTES = 200 * MIB
"""Bytes of free disk below which the check fails."""


@dataclass
class CheckResult:
    """The result of one check. `remedy` says how to fix a failed one."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


def run_checks(settings: Settings, config: Path | None = None) -> list[CheckResult]:
    """Run every check without changing anything.

    `config` is the settings file, if it is not the default one.
    """
    return [
        _check_config(config or default_config_file()),
        *_check_installation(settings),
        *_check_models(settings, os.environ),
        *_check_mcp_servers(settings),
    ]


def _check_installation(settings: Settings) -> Iterator[CheckResult]:
    """Check the data directory and the server, unless they are another user's."""
    try:
        data_dir_owner.check_data_dir_owner(settings.data_dir)
    except data_dir_owner.ForeignDataDirError as error:
        yield CheckResult("user", False, str(error), "run doctor as the user of the server")
        return
    user = data_dir_owner.name_user(os.geteuid())
    yield CheckResult("user", True, f"{user} owns the data directory")
    yield from _check_data_dir(settings)
    yield from _check_database(settings)
    yield from _check_host_key(settings)
    yield from _check_ports(settings)
    yield from _check_registration(settings)


def _check_config(path: Path) -> CheckResult:
    return CheckResult("settings", True, str(path) if path.exists() else "defaults, no file")


def _check_data_dir(settings: Settings) -> Iterator[CheckResult]:
    path = settings.data_dir
    try:
        is_there = path.exists()
    except PermissionError:
        is_there = False
    if not is_there:
        yield _check_parent(path)
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    yield CheckResult(
        "data directory",
        not mode & 0o077,
        f"{path}, mode {mode:04o}",
        f"chmod 700 {path}" if mode & 0o077 else "",
    )
    free = shutil.disk_usage(path).free
    yield CheckResult(
        "disk",
        free >= MIN_FREE_BYTES,
        f"{free // MIB} MiB free",
        "" if free >= MIN_FREE_BYTES else "free disk space: a full disk stops all changes",
    )


def _check_parent(path: Path) -> CheckResult:
    """Check that a data directory which does not exist can be created."""
    parent = next(folder for folder in path.absolute().parents if os.access(folder, os.F_OK))
    if os.access(parent, os.W_OK | os.X_OK):
        return CheckResult("data directory", True, f"{path} will be created at the first start")
    return CheckResult(
        "data directory",
        False,
        f"{path} cannot be created: {parent} is not writable",
        "choose another with --data-dir DIR or SSHWARMA_DATA_DIR",
    )


def _check_database(settings: Settings) -> Iterator[CheckResult]:
    path = settings.database
    if not path.exists():
        yield CheckResult("database", True, "none yet")
        return
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as database:
            verdict = str(database.execute("PRAGMA quick_check").fetchone()[0])
            schema = read_file_revision(database)
    except sqlite3.Error as error:
        yield CheckResult("database", False, str(error), _restore_command(settings))
        return
    remedy = "" if verdict == "ok" else _restore_command(settings)
    yield CheckResult("database", verdict == "ok", f"{path}, {verdict}", remedy)
    if schema not in known_revisions():
        yield CheckResult(
            "schema", False, f"{schema}, from a newer sshwarma", "install that version"
        )
        return
    note = (
        ""
        if schema == newest_revision()
        else f", the next start migrates it to {newest_revision()}"
    )
    yield CheckResult("schema", True, f"{schema}{note}")


def _restore_command(settings: Settings) -> str:
    directory = shlex.quote(str(settings.data_dir))
    return f"restore a backup: sshwarma restore FILE --force --data-dir {directory}"


def _check_host_key(settings: Settings) -> Iterator[CheckResult]:
    from sshwarma.ssh.transport.host_key import HOST_KEY_FILENAME

    path = settings.data_dir / HOST_KEY_FILENAME
    if not path.exists():
        yield CheckResult("host key", True, "will be created at the first start")
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    yield CheckResult(
        "host key",
        not mode & 0o077,
        f"{path}, mode {mode:04o}",
        f"chmod 600 {path}" if mode & 0o077 else "",
    )


def _check_ports(settings: Settings) -> Iterator[CheckResult]:
    if _is_server_running(settings):
        yield CheckResult("server", True, "running")
        return
    yield CheckResult("server", True, "not running")
    for label, address in (("ssh port", settings.ssh.listen), ("http port", settings.http.listen)):
        if address == "off":
            continue
        host, port = split_address(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with contextlib.closing(socket.socket(family)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                yield CheckResult(
                    label,
                    False,
                    f"{address}: {error.strerror}",
                    "stop the process that uses it, or set another address",
                )
            else:
                yield CheckResult(label, True, f"{address} is free")


def _check_registration(settings: Settings) -> Iterator[CheckResult]:
    """Check who may register: by the running server, or else by the settings."""
    running_facts = _read_running_registration(settings)
    facts = running_facts or {
        "mode": settings.registration.mode,
        "role": settings.registration.role,
        "listen": settings.ssh.listen,
    }
    mode, role, host = facts["mode"], facts["role"], split_address(facts["listen"])[0]
    exposed = mode == "open" and not is_loopback(host)
    too_much = exposed and role == "admin"
    source = "the running server" if running_facts else "the settings"
    yield CheckResult(
        "registration",
        not too_much,
        f"{mode} in {source}, listening on {host}"
        + (f": anyone who reaches it may register as {role}" if exposed else ""),
        'set role = "member" under [registration]' if too_much else "",
    )
    if not settings.database.exists():
        return
    try:
        owners = _count_owners_with_key(settings.database)
    except SQLAlchemyError:
        return  # the check of the database reports the problem
    yield CheckResult(
        "owners",
        owners > 0,
        f"{owners} with a key",
        ""
        if owners
        else f"sshwarma recover NAME FILE --data-dir {shlex.quote(str(settings.data_dir))}",
    )


def _count_owners_with_key(database: Path) -> int:
    """Count the owners that can log in. Opens the database for reading only."""
    path = f"{database.absolute().as_uri()}?mode=ro"
    engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(path, uri=True))
    try:
        with engine.connect() as conn:
            agents, keys = read_agents(conn)
    finally:
        engine.dispose()
    return count_usable_owners(agents, keys)


def _check_models(settings: Settings, environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check the models of the settings file.

    Models added by verb are checked when they are added.
    """
    for model in settings.models:
        problems = list(_find_model_problems(model, environ))
        for detail, remedy in problems:
            yield CheckResult(f"model {model.name}", False, detail, remedy)
        if not problems:
            yield CheckResult(f"model {model.name}", True, describe_model(model))


def _find_model_problems(
    model: ModelSettings, environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the description and the remedy of each problem of a model."""
    try:
        check_name(model.name, "agent")
    except Invalid as error:
        yield error.message, "choose another name"
    try:
        read_key(model, environ)
    except BackendError as backend_error:
        yield str(backend_error), "set key_env or key_file, and the variable where the server runs"
    if (model.price_in is None) != (model.price_out is None):
        yield "one of price_in and price_out is missing", "set both or neither"
        return
    limits = [name for name in COST_LIMITS if getattr(model, name) is not None]
    if limits and not is_price_known(model):
        yield (
            f"its price is unknown, so {' and '.join(limits)} cannot be enforced",
            "set price_in and price_out",
        )


def _check_mcp_servers(settings: Settings) -> Iterator[CheckResult]:
    """Check the MCP servers of the settings file; nothing is connected."""
    models = {model.name for model in settings.models}
    for server in settings.mcp:
        name = f"mcp {server.name}"
        try:
            check_name(server.name, "server")
        except Invalid as error:
            yield CheckResult(name, False, error.message, "choose another name")
            continue
        if server.name in models:
            yield CheckResult(name, False, "a model has the same name", "choose another name")
            continue
        yield CheckResult(name, True, server.url or server.command[0])


def _read_running_registration(settings: Settings) -> dict[str, str] | None:
    """Ask a running server for its registration; None without server or answer."""
    if not _is_server_running(settings):
        return None
    request = control_socket.send_request(settings.data_dir, "registration_show", {})
    try:
        registration: dict[str, str] | None = asyncio.run(request)
    except (OSError, TimeoutError, ValueError, WorldError):  # it starts, stops, or is older
        return None
    return registration


def _is_server_running(settings: Settings) -> bool:
    if not settings.data_dir.exists():
        return False
    try:
        data_dir_lock.lock_data_dir(settings.data_dir).close()
    except data_dir_lock.DataDirInUseError:
        return True
    return False
