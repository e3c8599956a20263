"""Rows that units have appended, and that are inserted together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sshwarma.world.dialect import ROW_COLUMNS
from sshwarma.world.postgres_connection import Driver

_INSERT_ROWS: Final = (
    f"INSERT INTO rows (n, {', '.join(ROW_COLUMNS)}) SELECT * FROM unnest("  # noqa: S608
    "%s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[], %s::text[],"
    " %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[])"
)
_INSERT_TAGS: Final = (
    "INSERT INTO row_tags (row_id, tag) SELECT * FROM unnest(%s::text[], %s::text[])"
)


class GatheredRows:
    """Rows and tags that are not inserted yet, in their order."""

    __slots__ = ("rows", "tags")

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.tags: list[tuple[str, str]] = []

    def insert(self, driver: Driver) -> None:
        """Insert all of them, and forget them.

        Raises:
            psycopg.Error: if the database refuses one.
        """
        if self.rows:
            driver.execute(_INSERT_ROWS, _columns_of(self.rows))
            self.rows.clear()
        if self.tags:
            driver.execute(_INSERT_TAGS, _columns_of(self.tags))
            self.tags.clear()

    def extend(self, other: GatheredRows) -> None:
        """Add those of another unit."""
        self.rows += other.rows
        self.tags += other.tags


def _columns_of(records: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*records, strict=True)]
