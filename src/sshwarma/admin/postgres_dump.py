"""Dumps of a world on PostgreSQL, made and read by PostgreSQL's own programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from sshwarma.admin.world_place import PostgresWorld
from sshwarma.common.reported_error import ReportedError
from sshwarma.workspaces.used_contents import read_used_sizes
from sshwarma.world.databases import DatabaseUrl, check_driver
from sshwarma.world.move_mark import MARK_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sshwarma.world.postgres_copy import BulkConnection

DUMP_NAME: Final = "world.dump"
"""The name of the dump in a backup."""

DUMP_MAGIC: Final = b"PGDMP"

PROGRAMS_VARIABLE: Final = "PGBIN"
"""Names the directory of PostgreSQL's programs, if they are not in PATH."""

DEBIAN_PROGRAMS: Final = Path("/usr/lib/postgresql")

OF_SERVERS: Final = ("nodes", "batches")
"""Tables of what servers say to each other, which is of no use later."""

WAIT_SECONDS: Final = 0.2
"""Seconds between two calls of `check` while a program runs."""

MAX_ERROR_CHARACTERS: Final = 600


class DumpError(ReportedError):
    """A dump that could not be made or read."""


def find_program(name: str) -> str:
    """Return the path of a program of PostgreSQL.

    Raises:
        DumpError: if it is not installed, with how to install it.
    """
    folders = [Path(os.environ[PROGRAMS_VARIABLE])] if os.environ.get(PROGRAMS_VARIABLE) else []
    for folder in folders:
        if (folder / name).exists():
            return str(folder / name)
    if (found := shutil.which(name)) is not None:
        return found
    for path in sorted(DEBIAN_PROGRAMS.glob(f"*/bin/{name}"), reverse=True):
        return str(path)
    raise DumpError(
        f"{name} is not installed, which backups of a world on PostgreSQL need: apt-get install"
        f" postgresql-client, or set {PROGRAMS_VARIABLE} to the directory of PostgreSQL's programs."
    )


@contextmanager
def snapshot_of(world: PostgresWorld) -> Iterator[tuple[BulkConnection, str]]:
    """Open a world at one moment; yield the connection and that snapshot's name.

    Raises:
        SchemaError: if the database cannot be used, or is not at the newest schema.
    """
    check_driver()
    from sshwarma.world.postgres_copy import opened_in_bulk

    with (
        opened_in_bulk(world.address.text) as bulk,
        bulk.transaction("ISOLATION LEVEL REPEATABLE READ READ ONLY"),
    ):
        bulk.check_world()
        yield bulk, str(bulk.ask("SELECT pg_export_snapshot()"))


def describe_world(bulk: BulkConnection) -> tuple[dict[str, Any], dict[str, int]]:
    """Return what the manifest of a dump counts, and the sizes of contents by hash."""
    return bulk.count_world(), read_used_sizes(bulk.conn)


def write_dump(world: PostgresWorld, snapshot: str, to: Path, check: Callable[[], None]) -> None:
    """Write a dump of a snapshot into a new file.

    Raises:
        DumpError: if it cannot be made, with PostgreSQL's reason.
    """
    _run(
        "pg_dump",
        world.address,
        [
            "--format=custom", f"--snapshot={snapshot}", f"--file={to}", "--no-owner",
            "--no-privileges", f"--exclude-table={MARK_TABLE}", "--no-password",
            *(f"--exclude-table-data={name}" for name in OF_SERVERS),
        ],
        check,
    )  # fmt: skip
    to.chmod(0o600)


def read_dump(dump: Path, target: DatabaseUrl) -> None:
    """Restore a dump into an empty database, in one transaction.

    Raises:
        DumpError: if that fails; then the database is as empty as before.
    """
    _run(
        "pg_restore",
        target,
        [
            "--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges",
            "--no-password", str(dump),
        ],
        lambda: None,
    )  # fmt: skip


def _run(
    name: str, address: DatabaseUrl, options: Collection[str], check: Callable[[], None]
) -> None:
    """Run a program of PostgreSQL on a database; `check` is called while it runs."""
    command = [find_program(name), f"--dbname={address.text}", *options]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(  # noqa: S603 - no shell, and the address was checked
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            while True:
                try:
                    status = process.wait(WAIT_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    check()
        except BaseException:
            process.kill()
            process.wait()
            raise
        if status:
            raise DumpError(f"{name} failed: {_read_errors(errors)}")


def _read_errors(errors: IO[bytes]) -> str:
    """Return the beginning of what a program has written, in one line."""
    errors.seek(0)
    text = errors.read(MAX_ERROR_CHARACTERS).decode(errors="replace")
    return " ".join(text.split()).rstrip(".") + "."
