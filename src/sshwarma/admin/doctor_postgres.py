"""The checks of a world's database on PostgreSQL, by `sshwarma doctor`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from sshwarma.admin.check_result import CheckResult, warn
from sshwarma.admin.postgres_dump import DumpError, find_program
from sshwarma.settings import Settings
from sshwarma.world.databases import check_driver
from sshwarma.world.migrate import SchemaError
from sshwarma.world.move_mark import MovedWorldError

if TYPE_CHECKING:
    from sshwarma.world.postgres_copy import BulkConnection

MAX_CLOCK_SECONDS: Final = 1.0
"""Seconds that the clocks of both machines may differ by."""

MAX_ROUND_TRIP_MS: Final = 5.0
"""Milliseconds of a round trip from which on people notice: a change takes several."""

ROUND_TRIPS: Final = 5

CONNECTIONS: Final = 6
"""Connections of one server."""

SPARE_CONNECTIONS: Final = 10
"""Connections that are left to commands, backups and people."""

MAX_QUEUE: Final = 0.01
"""Part of the queue of notifications from which on somebody does not read his."""

LONG_SECONDS: Final = 300
"""Seconds from which on a transaction is long: what others delete stays on the disk for it."""

MAX_NAMED: Final = 3

_SELECT_LONG: Final = (
    "SELECT pid, coalesce(nullif(application_name, ''), usename, '?'),"
    " extract(epoch FROM clock_timestamp() - xact_start)::int"
    " FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND xact_start < clock_timestamp() - make_interval(secs => %s) ORDER BY xact_start LIMIT %s"
)


def check_postgres(settings: Settings) -> Iterator[CheckResult]:
    """Check the database of a world; nothing is changed."""
    try:
        check_driver()
    except SchemaError as error:
        yield CheckResult("database", False, str(error), "install it, then check again")
        return
    from sshwarma.world.postgres_copy import opened_in_bulk

    try:
        with opened_in_bulk(settings.database) as bulk:
            yield from _check_world(bulk)
            yield from _check_server(bulk)
    except SchemaError as error:
        yield CheckResult(
            "database",
            False,
            str(error).rstrip("."),
            "see that PostgreSQL runs and lets this user in: psql with the same address, PGPASSWORD"
            " or a password file (PGPASSFILE, ~/.pgpass)",
        )


def _check_world(bulk: BulkConnection) -> Iterator[CheckResult]:
    """Check that the database can hold a world, and has one of this version."""
    version = str(bulk.ask("SHOW server_version")).split()[0]
    try:
        bulk.check_settings()
    except SchemaError as error:
        finding, _, remedy = str(error).partition(". ")
        yield CheckResult("database", False, finding.rstrip("."), remedy or "upgrade PostgreSQL")
        return
    size = int(bulk.ask("SELECT pg_database_size(current_database())"))
    yield CheckResult(
        "database", True, f"{bulk.place}, PostgreSQL {version}, UTF8, {size // 2**20} MiB"
    )
    revision = bulk.read_revision()
    if revision is None:
        yield CheckResult("schema", True, "no world yet: the first start makes one")
        return
    try:
        bulk.check_world()
    except (SchemaError, MovedWorldError) as error:
        finding, _, remedy = str(error).partition(". ")
        yield CheckResult("schema", False, finding, remedy)
    else:
        yield CheckResult("schema", True, revision)


def _check_server(bulk: BulkConnection) -> Iterator[CheckResult]:
    """Check the settings of the server, and how it is now."""
    yield _check_durability(bulk)
    yield _check_directness(bulk)
    yield from _check_time(bulk)
    yield _check_connections(bulk)
    yield from _check_queue(bulk)
    yield from _check_long_transactions(bulk)
    try:
        find_program("pg_dump")
    except DumpError as error:
        finding, _, remedy = str(error).partition(": ")
        yield warn("backup programs", finding, remedy.rstrip("."))


def _check_durability(bulk: BulkConnection) -> CheckResult:
    names = ("fsync", "synchronous_commit", "full_page_writes")
    off = [name for name in names if bulk.ask(f"SHOW {name}") == "off"]
    if not off:
        return CheckResult("durability", True, "a change is on the disk before it is answered")
    return CheckResult(
        "durability",
        False,
        f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off: a crash of the machine loses"
        " what was said",
        "; ".join(f"ALTER SYSTEM SET {name} = on" for name in off) + "; SELECT pg_reload_conf()",
    )


def _check_directness(bulk: BulkConnection) -> CheckResult:
    """Check that no pooler lends the connection to others between two statements."""
    if bulk.is_direct():
        return CheckResult("connection", True, "direct, notifications arrive")
    return CheckResult(
        "connection",
        False,
        "a pooler stands between: notifications do not arrive, and locks are not held",
        "name the address of PostgreSQL itself in database, or let the pooler use session mode",
    )


def _check_time(bulk: BulkConnection) -> Iterator[CheckResult]:
    """Check the time of a round trip, and the clock of the server."""
    trips, offsets = [], []
    for _ in range(ROUND_TRIPS):
        started = time.perf_counter()
        sent = time.time()
        there = float(bulk.ask("SELECT extract(epoch FROM clock_timestamp())::float8"))
        trips.append((time.perf_counter() - started) * 1000)
        offsets.append(there - (sent + time.time()) / 2)
    trip, offset = min(trips), sorted(offsets)[ROUND_TRIPS // 2]
    detail = f"{trip:.1f} ms to the database and back"
    if trip > MAX_ROUND_TRIP_MS:
        remedy = "put the server and its database into one network: a change needs several"
        yield warn("round trip", detail, remedy)
    else:
        yield CheckResult("round trip", True, detail)
    if abs(offset) >= MAX_CLOCK_SECONDS:
        side = "ahead" if offset > 0 else "behind"
        yield warn(
            "clock",
            f"the clock of the database is {abs(offset):.1f} s {side}",
            "let both machines set their clocks from the network (NTP): times in logs are the"
            " database's",
        )


def _check_connections(bulk: BulkConnection) -> CheckResult:
    limit = int(bulk.ask("SHOW max_connections"))
    needed = CONNECTIONS + SPARE_CONNECTIONS
    detail = f"at most {limit}"
    if limit >= needed:
        return CheckResult("connections", True, detail)
    remedy = f"ALTER SYSTEM SET max_connections = {max(100, needed)}, then restart PostgreSQL"
    return warn("connections", f"{detail}, and a server with its commands needs {needed}", remedy)


def _check_queue(bulk: BulkConnection) -> Iterator[CheckResult]:
    usage = float(bulk.ask("SELECT pg_notification_queue_usage()"))
    if usage >= MAX_QUEUE:
        yield warn(
            "notifications",
            f"{usage:.0%} of their queue is used: a connection does not read its own",
            "look for a transaction that is open for long in pg_stat_activity, and end it with"
            " SELECT pg_terminate_backend(PID)",
        )


def _check_long_transactions(bulk: BulkConnection) -> Iterator[CheckResult]:
    found = bulk.conn.exec_driver_sql(_SELECT_LONG, (LONG_SECONDS, MAX_NAMED)).all()
    if found:
        named = ", ".join(f"{pid} ({name}, {seconds // 60} min)" for pid, name, seconds in found)
        yield warn(
            "transactions",
            f"open for long: {named}",
            "wait for a backup; end others with SELECT pg_terminate_backend(PID)",
        )
