"""`sshwarma doctor`: what is wrong with an installation, and what to do about it."""

from __future__ import annotations

import contextlib
import shutil
import socket
import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from sshwarma.admin import control_socket
from sshwarma.settings import Settings, default_config_file, is_loopback, split_address
from sshwarma.world.migrate import known, newest

FREE_BYTES = 200 * 1024 * 1024
"""Less free disk than this is worth a word."""


@dataclass
class Finding:
    """One thing looked at. `remedy` says what to do if it is not well."""

    what: str
    ok: bool
    found: str
    remedy: str = ""


def examine(settings: Settings) -> list[Finding]:
    """Look at everything; nothing is changed."""
    return [
        _config(),
        *_data_dir(settings),
        *_database(settings),
        *_host_key(settings),
        *_ports(settings),
        *_people(settings),
    ]


def _config() -> Finding:
    path = default_config_file()
    return Finding("settings", True, str(path) if path.exists() else "defaults, no file")


def _data_dir(settings: Settings) -> Iterator[Finding]:
    path = settings.data_dir
    if not path.exists():
        yield Finding("data directory", True, f"{path} will be made at the first start")
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    yield Finding(
        "data directory",
        not mode & 0o077,
        f"{path}, mode {mode:04o}",
        f"chmod 700 {path}" if mode & 0o077 else "",
    )
    free = shutil.disk_usage(path).free
    yield Finding(
        "disk",
        free >= FREE_BYTES,
        f"{free // 1_048_576} MiB free",
        "" if free >= FREE_BYTES else "make room: a full disk stops all changes",
    )


def _database(settings: Settings) -> Iterator[Finding]:
    path = settings.database
    if not path.exists():
        yield Finding("database", True, "none yet")
        return
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as database:
            verdict = str(database.execute("PRAGMA quick_check").fetchone()[0])
            schema = str(database.execute("SELECT version_num FROM alembic_version").fetchone()[0])
    except sqlite3.Error as error:
        yield Finding(
            "database", False, str(error), "restore a backup: sshwarma restore FILE --force"
        )
        return
    remedy = "" if verdict == "ok" else "restore a backup: sshwarma restore FILE --force"
    yield Finding("database", verdict == "ok", f"{path}, {verdict}", remedy)
    if schema not in known():
        yield Finding("schema", False, f"{schema}, of a newer sshwarma", "install that version")
        return
    note = "" if schema == newest() else f", the next start brings it to {newest()}"
    yield Finding("schema", True, f"{schema}{note}")


def _host_key(settings: Settings) -> Iterator[Finding]:
    from sshwarma.ssh.transport.host_key import HOST_KEY

    path = settings.data_dir / HOST_KEY
    if not path.exists():
        yield Finding("host key", True, "will be made at the first start")
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    yield Finding(
        "host key",
        not mode & 0o077,
        f"{path}, mode {mode:04o}",
        f"chmod 600 {path}" if mode & 0o077 else "",
    )


def _ports(settings: Settings) -> Iterator[Finding]:
    if _running(settings):
        yield Finding("server", True, "running")
        return
    yield Finding("server", True, "not running")
    for what, address in (("ssh port", settings.ssh.listen), ("http port", settings.http.listen)):
        if address == "off":
            continue
        host, port = split_address(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with contextlib.closing(socket.socket(family)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                yield Finding(
                    what, False, f"{address}: {error.strerror}", "stop what uses it, or set another"
                )
            else:
                yield Finding(what, True, f"{address} is free")


def _people(settings: Settings) -> Iterator[Finding]:
    mode, host = settings.registration.mode, split_address(settings.ssh.listen)[0]
    exposed = mode == "open" and not is_loopback(host)
    yield Finding(
        "registration",
        True,
        f"{mode}, listening on {host}"
        + (": anyone who reaches it may register" if exposed else ""),
    )
    if not settings.database.exists():
        return
    try:
        with contextlib.closing(
            sqlite3.connect(f"{settings.database.absolute().as_uri()}?mode=ro", uri=True)
        ) as database:
            owners = database.execute(
                "SELECT count(DISTINCT things.id) FROM things"
                " JOIN agent_keys ON agent_id = things.id"
                " WHERE kind = 'agent' AND things.deleted_at IS NULL"
                " AND agent_keys.deleted_at IS NULL"
                " AND json_extract(metadata, '$.role') = 'owner'"
                " AND json_extract(metadata, '$.disabled') IS NULL"
            ).fetchone()[0]
    except sqlite3.Error:
        return  # the database finding says what is wrong with it
    yield Finding(
        "owners",
        owners > 0,
        f"{owners} with a key",
        "" if owners else "sshwarma keys add NAME FILE --role owner",
    )


def _running(settings: Settings) -> bool:
    if not settings.data_dir.exists():
        return False
    try:
        control_socket.lock(settings.data_dir).close()
    except control_socket.Taken:
        return True
    return False
