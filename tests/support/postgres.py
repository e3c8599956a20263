"""A PostgreSQL server for tests, which is deleted afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg

from sshwarma.world.databases import DatabaseUrl

LOCALE = "C.UTF-8"
MEMORY = "/dev/shm"
MIN_MEMORY_BYTES = 2 << 30


class MissingPostgresError(Exception):
    """This machine has no PostgreSQL server."""


def find_programs() -> Path:
    """Return the folder of `initdb` and `pg_ctl`, by PGBIN or where it usually is."""
    found = shutil.which("initdb")
    folders = [os.environ.get("PGBIN", ""), str(Path(found).parent) if found else ""]
    folders += sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    for folder in folders:
        if folder and (Path(folder) / "initdb").exists():
            return Path(folder)
    raise MissingPostgresError(
        "PostgreSQL is not installed: apt-get install postgresql, or set PGBIN to the folder of"
        " its programs."
    )


@dataclass
class PostgresServer:
    """A running cluster. Its superuser is `sshwarma`; only this machine reaches it."""

    port: int
    folder: Path
    programs: Path
    _numbers: Iterator[int] = field(default_factory=count, init=False)

    def address(self, name: str) -> str:
        """The address of one of its databases."""
        return f"postgresql://sshwarma@127.0.0.1:{self.port}/{name}"

    def run(self, statement: str, database: str = "postgres") -> None:
        """Run a statement outside of a transaction."""
        with psycopg.connect(self.address(database), autocommit=True) as conn:
            conn.execute(statement.encode())

    def create(self, template: str = "template0") -> DatabaseUrl:
        """Make a database: a copy of another, or an empty one."""
        name = f"world_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return DatabaseUrl(self.address(name))

    def drop(self, database: DatabaseUrl) -> None:
        """Delete a database, and end its connections."""
        name = database.text.rpartition("/")[2]
        self.run(f"DROP DATABASE {name} WITH (FORCE)")

    def control(self, *arguments: str) -> None:
        """Run `pg_ctl`, as `restart -m immediate`."""
        data = str(self.folder / "data")
        command = [str(self.programs / "pg_ctl"), "-D", data, "-w", "-l", str(self.folder / "log")]
        _run([*command, *arguments])


@contextmanager
def running_postgres(settings: str = "fsync=off") -> Iterator[PostgresServer]:
    """A new cluster, with some settings.

    Raises:
        MissingPostgresError: if PostgreSQL is not installed.
    """
    programs = find_programs()
    # A socket's path has a limit of 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="sshw-pg-", dir=_short_folder()))
    folder.chmod(0o711)
    server = PostgresServer(_free_port(), folder, programs)
    options = (
        f"port={server.port}",
        f"unix_socket_directories='{folder}'",
        "listen_addresses='127.0.0.1'",
        "max_connections=200",
        *settings.split(),
    )
    try:
        if os.getuid() == 0:  # the server refuses to run as root
            found = pwd.getpwnam("postgres")
            os.chown(folder, found.pw_uid, found.pw_gid)
        made = [str(programs / "initdb"), "-D", str(folder / "data"), "--no-sync", "-A", "trust"]
        _run([*made, "-U", "sshwarma", "-E", "UTF8", f"--locale={LOCALE}"])
        with (folder / "data" / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{option}\n" for option in options)
        server.control("start")
        yield server
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            server.control("-m", "immediate", "stop")
        shutil.rmtree(folder)


def _run(command: list[str]) -> None:
    is_root = os.getuid() == 0
    subprocess.run(
        command,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd="/",
        user="postgres" if is_root else None,
        group="postgres" if is_root else None,
        extra_groups=[] if is_root else None,
    )


def _short_folder() -> str:
    """Return memory, if there is enough: a container may have 64 MB of it."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MIN_MEMORY_BYTES:
        return MEMORY
    return "/tmp"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
