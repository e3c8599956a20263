"""What a world needs of the database that holds it.

What differs between databases is behind it: `sqlite_dialect` has a file, `postgres_dialect` a
server. The store keeps the queue, the batches and the publishing; a `Writer` has the one connection
that changes the world, a `SnapshotReader` one of those that only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import Connection

from sshwarma.world.errors import Unavailable
from sshwarma.world.events import Event

T = TypeVar("T")

ROW_COLUMNS: Final = (
    "id", "room_id", "seq", "turn_id", "parent_row_id", "author_id", "kind", "status",
    "content", "meta", "created_at",
)  # fmt: skip
"""The columns of a row that `Writer.insert_row` is given, in its order; `n` is its own."""


@dataclass(frozen=True, slots=True)
class DatabaseSizes:
    """The sizes of a database, in bytes.

    Attributes:
        files: by name: `db`, and `wal` for a write-ahead log.
        disk_free: of the disk that it is on; None if that is not known.
        disk_size: of that disk.
    """

    files: Mapping[str, int]
    disk_free: int | None = None
    disk_size: int | None = None


class AbandonedTransactionError(Exception):
    """The database ended a whole transaction, and not one unit.

    The disk is full, the connection is lost, or rows of an earlier unit were refused.
    """


class Writer(Protocol):
    """The one connection of this process that changes the world. One thread uses it.

    A batch of units is one transaction, `begin` to `commit` or `rollback`; a unit is from
    `begin_unit` to `keep_unit` or `undo_unit`, in which nothing of it stays.
    """

    conn: Connection

    def begin(self, attempt: int) -> None:
        """Begin a batch, once no other writer has one; `attempt` counts from 0."""

    def now(self) -> int:
        """Return the time, in milliseconds since the Unix epoch, by the database's clock."""

    def begin_unit(self) -> None:
        """Begin a unit of work."""

    def keep_unit(self) -> None:
        """End a unit whose changes stay."""

    def undo_unit(self) -> None:
        """Take back what a unit has changed.

        Raises:
            AbandonedTransactionError: if the database has ended the transaction.
        """

    def commit(self, events: Sequence[Event]) -> None:
        """Store the batch, and tell other servers of its events."""

    def read_others(self, *, has_news: bool) -> list[Event]:
        """Return what other servers have published since the last call.

        After a commit, what came before it: all servers publish in one order. Else nothing, unless
        there is news of others.
        """

    def rollback(self) -> None:
        """Take back the batch, if there is one."""

    def next_seq(self, room_id: str) -> int:
        """Return the room's next row number."""

    def next_n(self) -> int | None:
        """Return the world's next row number; None if the database numbers rows."""

    def insert_row(self, values: Sequence[Any], tags: Iterable[str]) -> int:
        """Insert a row by the values of ROW_COLUMNS, with its tags; return its `n`."""

    def close(self) -> None:
        """End the connection."""


class Listener(Protocol):
    """Hears when other servers change the world."""

    def close(self) -> None:
        """Stop listening."""


class SnapshotReader(Protocol):
    """A connection that only reads. One thread uses it."""

    def run(self, query: Callable[[Connection], T]) -> T:
        """Run a query, which sees the world at one moment."""

    def close(self) -> None:
        """End the connection."""


class Dialect(Protocol):
    """A database that holds a world.

    Attributes:
        place: where it is, in words for the log; without a password.
        disk: what has the disk that may be full, in words.
        max_batch_units: maximum number of units in one transaction, which bounds the wait of the
            first of them.
        slow_because: what may keep a write from ending, in words.
        indexes_later: whether rows are indexed for searches in passes of their own.
        max_attempts: times that a batch is tried whose error is of the database and not of a unit.
    """

    place: str
    disk: str
    max_batch_units: int
    max_attempts: int
    indexes_later: bool
    slow_because: str

    def prepare(self) -> None:
        """Create the newest schema in an empty database, or check that of a world.

        Raises:
            SchemaError: if this program cannot use the database as it is.
        """

    def claim(self) -> None:
        """Keep other servers from using this world until `close`.

        Raises:
            SchemaError: if another one does.
        """

    def check_place(self) -> None:
        """Check what a change cannot tell: the room on the disk, and the file's name.

        Raises:
            Unavailable: if changes would be lost, or fail soon.
        """

    def write_again(self, conn: Connection) -> None:
        """Write something that is stored already, to see that writing works."""

    def measure_sizes(self, conn: Connection) -> DatabaseSizes:
        """Return the sizes of the database, to which `conn` is a connection.

        Raises:
            OSError: if its file cannot be read.
        """

    def open_writer(self) -> Writer:
        """Connect for changes."""

    def open_listener(
        self, note_news: Callable[[], None], note_lost: Callable[[], None]
    ) -> Listener | None:
        """Call functions, in another thread; None where there are no other servers.

        Args:
            note_news: is called when others may have changed the world.
            note_lost: is called when another server has taken over.
        """

    def open_reader(self) -> SnapshotReader:
        """Connect for reading."""

    def ends_batch(self, error: BaseException) -> bool:
        """Return whether an error of one unit is of the whole transaction."""

    def may_retry(self, error: BaseException) -> bool:
        """Return whether a batch that ended with an error can be run again."""

    def is_error(self, error: BaseException) -> bool:
        """Return whether an error comes from the database, or from SQLAlchemy."""

    def is_damage(self, error: BaseException) -> bool:
        """Return whether an error says that the stored data are damaged."""

    def describe_write_error(self, error: BaseException) -> tuple[Unavailable, str, str]:
        """Return the refusal of a change, the event for the log, and its details."""

    def describe_unit_error(self, error: BaseException) -> BaseException:
        """Return the refusal of a unit that the database ended; other errors as they are."""

    def describe_read_error(self, error: BaseException) -> BaseException:
        """Return the refusal of a read; the error itself if it is one of the program."""

    def close(self) -> None:
        """Let go of what the connections share."""
