"""A world on a PostgreSQL server, which several processes can share.

Units of work are written for one writer: they read, decide and write, and number rows one after
another. So that this stays true with several processes, a batch begins by taking one advisory lock,
which all writers of a world share, and holds it until its commit. Rows are numbered under that
lock, by this process, and inserted together at the end of the batch or before the next statement,
whichever comes first: a round trip for each row would be most of the cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar
from uuid import uuid4

import psycopg
import structlog
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.types.string import StrDumper
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool
from typing_extensions import override

from sshwarma.common.visible_nul import replace_nul
from sshwarma.world.dialect import AbandonedTransactionError, DatabaseSizes
from sshwarma.world.errors import Unavailable
from sshwarma.world.postgres_connection import driver_of, end_connection
from sshwarma.world.postgres_errors import (
    UnknownCommitError,
    describe_read_error,
    describe_unit_error,
    describe_write_error,
    find_postgres_error,
    is_damage,
    is_lost_connection,
)
from sshwarma.world.postgres_listener import PostgresListener
from sshwarma.world.postgres_nodes import Node, NodeLostError
from sshwarma.world.postgres_schema import prepare_postgres
from sshwarma.world.postgres_writer import PostgresWriter

log = structlog.get_logger(__name__)
T = TypeVar("T")

MAX_BATCH_UNITS: Final = 60
"""Maximum number of units in one transaction: PostgreSQL keeps 64 savepoints in its fast cache."""

MAX_ATTEMPTS: Final = 4
"""Times that a batch is tried that another transaction or a lost connection has ended."""

LOCK_TIMEOUT_MS: Final = 5_000
"""Milliseconds that a writer waits for others."""

STATEMENT_TIMEOUT_MS: Final = 30_000
"""Milliseconds that one statement may take."""

IDLE_TIMEOUT_MS: Final = 10_000
"""Milliseconds after which the server ends a transaction of a process that does nothing."""

TCP_TIMEOUT_MS: Final = 10_000
"""Milliseconds after which a connection is lost whose packets nobody acknowledges."""

CONNECT_TIMEOUT_SECONDS: Final = 5
"""Seconds that the driver waits for a connection."""


_TOO_LONG: Final = errors.IdleInTransactionSessionTimeout


class PostgresDialect:
    """A database of a PostgreSQL server."""

    max_batch_units = MAX_BATCH_UNITS
    max_attempts = MAX_ATTEMPTS
    indexes_later = False
    slow_because = (
        "the database cannot be reached, others keep it busy, or its disk does not answer"
    )

    def __init__(self, address: str, node_name: str) -> None:
        self._url = make_url(address).set(drivername="postgresql+psycopg")
        self.place = self._url.set(drivername="postgresql").render_as_string()
        self.disk = self.place
        self._writer_engine = self._create_engine("writer")
        self.node = Node(str(uuid4()), node_name)
        self._listener_engine = self._create_engine("listener")
        self._reader_engine = self._create_engine("reader", "-c default_transaction_read_only=on")

    def _create_engine(self, role: str, options: str = "") -> Engine:
        """Return an engine without the driver's automatic transactions; we begin them."""
        timeouts = (
            f"-c lock_timeout={LOCK_TIMEOUT_MS} -c statement_timeout={STATEMENT_TIMEOUT_MS}"
            " -c default_transaction_isolation=read\\ committed -c synchronous_commit=on"
            f" -c idle_in_transaction_session_timeout={IDLE_TIMEOUT_MS} {options}"
        )
        engine = create_engine(
            self._url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            use_native_hstore=False,
            # Values of statements are what people said: not for logs.
            hide_parameters=True,
            connect_args={
                "application_name": f"sshwarma/{role}",
                "connect_timeout": CONNECT_TIMEOUT_SECONDS,
                "options": timeouts,
                "keepalives_idle": 5,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                "tcp_user_timeout": TCP_TIMEOUT_MS,
            },
        )

        @event.listens_for(engine, "connect")
        def prepare(connection: psycopg.Connection, _record: object) -> None:
            connection.adapters.register_dumper(str, _TextDumper)

        return engine

    def prepare(self) -> None:
        """Create the newest schema in an empty database, or check that of a world.

        Raises:
            SchemaError: if this program cannot use the database as it is.
        """
        prepare_postgres(self._writer_engine, self.place)

    def claim(self) -> None:
        """Keep other servers from using this world until `close`.

        Raises:
            SchemaError: if another one does.
        """
        self.node.register(self._writer_engine, self.place)

    def check_place(self) -> None:
        """Do nothing: the server of the database looks after its disk."""

    def write_again(self, conn: Connection) -> None:
        """Write the revision of the schema again, as it is."""
        conn.exec_driver_sql("UPDATE alembic_version SET version_num = version_num")

    def measure_sizes(self, conn: Connection) -> DatabaseSizes:
        """Return the size of the database; that of its disk is not known here."""
        query = "SELECT pg_database_size(current_database())"
        return DatabaseSizes({"db": int(conn.exec_driver_sql(query).scalar_one())})

    def open_writer(self) -> PostgresWriter:
        """Return a writer, which connects when it begins."""
        return PostgresWriter(self._writer_engine, self.node)

    def open_listener(
        self, note_news: Callable[[], None], note_lost: Callable[[], None]
    ) -> PostgresListener:
        """Call a function when others may have changed the world, or one has taken over."""
        return PostgresListener(self._listener_engine, self.node, note_news, note_lost)

    def open_reader(self) -> PostgresReader:
        """Return a reader, which connects for its first query."""
        return PostgresReader(self._reader_engine)

    def ends_batch(self, error: BaseException) -> bool:
        """Return whether an error of one unit is of the whole transaction."""
        return self.may_retry(error)

    def may_retry(self, error: BaseException) -> bool:
        """Return whether a batch that ended with an error can be run again."""
        if isinstance(error, Unavailable):
            return False
        if isinstance(error, AbandonedTransactionError):
            return True
        if isinstance(error, Unavailable):  # not reached for long, or perhaps stored
            return False
        found = find_postgres_error(error)
        return found is not None and (
            (is_lost_connection(found) and not isinstance(found, _TOO_LONG))
            or isinstance(found, errors.SerializationFailure | errors.DeadlockDetected)
        )

    def is_error(self, error: BaseException) -> bool:
        """Return whether an error comes from PostgreSQL or from SQLAlchemy."""
        return isinstance(
            error, psycopg.Error | SQLAlchemyError | AbandonedTransactionError | Unavailable
        )

    def is_damage(self, error: BaseException) -> bool:
        """Return whether PostgreSQL says by an error that the data are damaged."""
        return is_damage(error)

    def describe_write_error(self, error: BaseException) -> tuple[Unavailable, str, str]:
        """Return the refusal of a change, the event for the log, and its details."""
        if isinstance(error, NodeLostError):
            return error, "another server has taken over", self.node.name
        if isinstance(error, Unavailable):
            event = "a commit was not answered"
            if not isinstance(error, UnknownCommitError):
                event = "the world cannot be written to"
            return error, event, type(error.__cause__).__name__
        return describe_write_error(error)

    def describe_unit_error(self, error: BaseException) -> BaseException:
        """Return the refusal of a unit that the database ended; other errors as they are."""
        return describe_unit_error(error)

    def describe_read_error(self, error: BaseException) -> BaseException:
        """Return the refusal of a read; the error itself if it is one of the program."""
        return describe_read_error(error)

    def close(self) -> None:
        """Give the world back, and let go of the engines."""
        try:
            self.node.leave(self._writer_engine)
        except (psycopg.Error, DBAPIError) as error:  # others take it for dead in a while
            log.warning("the world was not given back", error=type(error).__name__)
        self._writer_engine.dispose()
        self._reader_engine.dispose()
        self._listener_engine.dispose()


class _TextDumper(StrDumper):
    """Sends texts; a NUL, which PostgreSQL cannot have, becomes visible."""

    @override
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(replace_nul(obj))


class PostgresReader:
    """A connection that only reads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._conn: Connection | None = None

    def run(self, query: Callable[[Connection], T]) -> T:
        """Run a query in one snapshot; again on a new connection if the old one is lost."""
        is_new = self._conn is None
        try:
            return self._run(query)
        except (psycopg.Error, DBAPIError) as error:
            found = find_postgres_error(error)
            if is_new or found is None or not is_lost_connection(found):
                raise
        return self._run(query)

    def _run(self, query: Callable[[Connection], T]) -> T:
        conn = self._conn = self._conn or self._engine.connect()
        driver = driver_of(conn)
        try:
            driver.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return query(conn)
        finally:
            if driver.closed:
                self.close()
            else:
                driver.execute("ROLLBACK")

    def close(self) -> None:
        """End the connection."""
        conn, self._conn = self._conn, None
        if conn is not None:
            end_connection(conn)
