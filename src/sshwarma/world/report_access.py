"""SQL access of one asker: a connection restricted to their rooms and bags.

Imports only constants, a small helper and the standard library, because `report_worker` imports it.
Two lines of defence:

- **Gates.** For the asker, `rows` or `things` is a temporary view over the table of that name, for
  the rooms and bags they may look into. The reporting views are created again over those, from
  their own text, so they show no more than the tables do.
- **The authorizer.** SQLite asks it while it compiles the statement. A table is read only through
  its gate, whose name nobody can guess: SQLite passes an authorizer the name of the view that
  reads, and would pass it the name of somebody's `WITH rows AS (...)` as well. Functions are those
  of a list. Everything else is refused: writes, PRAGMA, other files, the schema.
"""

# ruff: noqa: S608 - every name in a statement is a constant of this file

from __future__ import annotations

import json
import re
import secrets
import sqlite3
from pathlib import Path
from typing import Any, Final, NamedTuple

from sshwarma.common.limits import MAX_REPORT_VALUE_BYTES
from sshwarma.common.read_only_database import connect_read_only
from sshwarma.common.units import MIB
from sshwarma.world.builtin_containers import BUILTIN_NAMESPACES, DEFAULTS_ID
from sshwarma.world.stored_json import read_object_or_none

MAX_CACHED_METADATA: Final = 1_000
"""Things whose metadata is read once, instead of for every joined row."""

SQLITE_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_REPORT_VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: MIB,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}

ALLOWED_FUNCTIONS: Final = frozenset("""
    abs avg ceil ceiling char coalesce count cume_dist date datetime dense_rank exp
    first_value floor format glob group_concat hex ifnull iif instr json json_array
    json_array_length json_extract json_group_array json_group_object json_insert json_object
    json_patch json_quote json_remove json_replace json_set json_type json_valid julianday lag
    last_value lead length like ln log log10 log2 lower ltrim max min mod nth_value ntile nullif
    percent_rank pow power printf quote rank replace round row_number rtrim sign sqrt strftime
    string_agg substr substring sum time timediff total trim trunc typeof unicode unixepoch upper
    -> ->>
""".split())  # fmt: skip # noqa: SIM905

ALLOWED_TABLE_FUNCTIONS: Final = frozenset({"json_each", "json_tree"})

PUBLIC_METADATA_KEYS: Final = frozenset("""
    access activations active_leaf active_manifest_id agent_kind call_count context_size
    display_name entrypoint imported input_schema installed_at keywords leave_out
    leave_out_per_action load_with_parent manifest_version nav number path requires_confirmation
    required_states role runs server_type short_amount source_type states tags version vibe
""".split())  # fmt: skip # noqa: SIM905
"""Keys of a thing's metadata that are visible to anyone who may see the thing."""

ADMIN_METADATA_KEYS: Final = frozenset(("args", "command", "cwd", "source_ref", "url"))

MASKED_METADATA_KEYS: Final = frozenset(("env", "headers"))
"""Keys of which admins see the names, but never the values, which are secrets."""

_IN_READABLE_LOGS: Final = "IN (SELECT id FROM temp.logs)"
_IN_VISIBLE_THINGS: Final = "IN (SELECT id FROM temp.seen)"


class TableFilter(NamedTuple):
    """Which part of a table can be read: rows for which `condition` holds.

    `keys` are columns of ids, by which tables are joined; every other column is NULL in a hidden
    row, so that no part of a WHERE sees a hidden value, in whatever order SQLite evaluates it.
    """

    condition: str
    keys: tuple[str, ...]


TABLE_FILTERS: Final = {
    "rows": TableFilter(f"room_id {_IN_READABLE_LOGS}", ("n", "id", "room_id", "seq", "turn_id")),
    "turns": TableFilter(f"room_id {_IN_READABLE_LOGS}", ("id", "room_id", "request_row_id")),
    "usage": TableFilter(f"session_id {_IN_READABLE_LOGS}", ("id", "session_id", "turn_id")),
    "tool_calls": TableFilter(f"chat_id {_IN_READABLE_LOGS}", ("id", "chat_id")),
    "manifests": TableFilter(f"chat_id {_IN_READABLE_LOGS}", ("id", "chat_id", "parent_id")),
    "manifest_entries": TableFilter(
        f"manifest_id IN (SELECT id FROM main.manifests WHERE chat_id {_IN_READABLE_LOGS})",
        ("manifest_id",),
    ),
    "things": TableFilter(f"id {_IN_VISIBLE_THINGS}", ("id", "parent_id", "kind", "deleted_at")),
    "equipped": TableFilter(
        f"context_id IN (SELECT id FROM temp.contexts) AND thing_id {_IN_VISIBLE_THINGS}",
        ("context_id", "thing_id"),
    ),
    "exits": TableFilter(
        f"from_room_id {_IN_READABLE_LOGS} AND to_room_id {_IN_READABLE_LOGS}", ("from_room_id",)
    ),
    "tool_overrides": TableFilter(
        f"tool_id IN (SELECT qualified_name FROM main.things WHERE id {_IN_VISIBLE_THINGS})",
        ("id",),
    ),
    "toolset_files": TableFilter("length(path) > 0", ("toolset_id",)),
}
"""Tables that can be read.

Every gate tests a column, so that even a count of a table's rows goes through it.
"""

_COLUMN_REPLACEMENTS: Final = {
    ("things", "metadata"): "shown({})",
    ("toolset_files", "stored_path"): "iif((SELECT admin FROM temp.asker), {}, NULL)",
}

PUBLIC_CONTAINERS: Final = (
    *BUILTIN_NAMESPACES, "mcps", "toolsets", "skills", DEFAULTS_ID,
)  # fmt: skip
"""Containers of the world that are open to everybody."""

# Things in a room, in the asker's own bag or in an open one, at any depth; and agents, visible to
# everybody, without their bags. Deleted agents too: their messages are still there.
_FILL_VISIBLE_THINGS: Final = """
    WITH RECURSIVE inside(id) AS (
        SELECT id FROM temp.logs UNION SELECT id FROM temp.contexts UNION SELECT id FROM temp.bags
        UNION
        SELECT child.id FROM inside JOIN main.things AS child ON child.parent_id = inside.id
        WHERE child.deleted_at IS NULL AND child.kind NOT IN ('room', 'agent')
    )
    INSERT OR IGNORE INTO temp.seen
    SELECT id FROM inside UNION SELECT id FROM main.things WHERE kind = 'agent'
"""

_CREATE_VIEW: Final = re.compile(r"\s*CREATE\s+VIEW\s+(\S+)\s+AS\s", re.IGNORECASE)

_WRITE_ACTIONS: Final = frozenset({
    sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE,
    sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_TEMP_TABLE, sqlite3.SQLITE_CREATE_VIEW,
    sqlite3.SQLITE_CREATE_TEMP_VIEW, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_CREATE_TEMP_INDEX,
    sqlite3.SQLITE_CREATE_TRIGGER, sqlite3.SQLITE_CREATE_TEMP_TRIGGER,
    sqlite3.SQLITE_CREATE_VTABLE, sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_DROP_VIEW,
    sqlite3.SQLITE_DROP_INDEX, sqlite3.SQLITE_DROP_TRIGGER, sqlite3.SQLITE_ALTER_TABLE,
    sqlite3.SQLITE_REINDEX, sqlite3.SQLITE_ANALYZE,
})  # fmt: skip


class RestrictedDatabase:
    """A connection that reads only the rows one asker may read."""

    def __init__(self, question: dict[str, Any]) -> None:
        self.admin = bool(question["admin"])
        self.denied: tuple[str, str] | None = None
        self._metadata_cache: dict[str, str] = {}
        self.database = connect_read_only(Path(question["path"]), isolation_level=None)
        self.database.text_factory = lambda raw: raw.decode("utf-8", "replace")
        self.database.execute("PRAGMA temp_store = MEMORY")
        self.database.execute("PRAGMA busy_timeout = 1000")
        query = "SELECT lower(name) FROM main.sqlite_master"
        self._stored_names = {name for (name,) in self.database.execute(query)}
        self._view_tables = {f"{name} {secrets.token_hex(16)}": name for name in TABLE_FILTERS}
        self.database.execute("BEGIN")  # one snapshot of the world for all that follows
        self._fill_tables(question)
        self._build_views()
        # SQLite declares a table function when it is first used, which counts as a write.
        for function in ALLOWED_TABLE_FUNCTIONS:
            self.database.execute(f"SELECT 1 FROM {function}('[]')")
        for limit, value in SQLITE_LIMITS.items():
            self.database.setlimit(limit, value)
        self.database.set_authorizer(self._authorize_action)

    def read_relations(self) -> dict[str, list[str]]:
        """Return the readable tables and views with their columns; lift all restrictions."""
        self.database.set_authorizer(None)
        self.database.set_progress_handler(None, 0)
        query = "SELECT name FROM temp.sqlite_master WHERE type = 'view' AND instr(name, ' ') = 0"
        names = [name for (name,) in self.database.execute(query)]
        return {
            name: [row[1] for row in self.database.execute(f'PRAGMA temp.table_info("{name}")')]
            for name in names
        }

    def _fill_tables(self, question: dict[str, Any]) -> None:
        database = self.database
        for table in ("logs", "contexts", "bags", "seen"):
            database.execute(f"CREATE TEMP TABLE {table} (id TEXT PRIMARY KEY) WITHOUT ROWID")
        database.execute("CREATE TEMP TABLE asker (admin INTEGER)")
        database.execute("INSERT INTO temp.asker VALUES (?)", (int(self.admin),))

        def fill(table: str, ids: list[str]) -> None:
            database.executemany(
                f"INSERT OR IGNORE INTO temp.{table} VALUES (?)",
                [(row_id,) for row_id in ids],
            )

        fill("logs", question["logs"])
        fill("contexts", [*question["logs"], question["agent"], DEFAULTS_ID])
        fill("bags", [*PUBLIC_CONTAINERS, *question["projects"]])
        database.execute(_FILL_VISIBLE_THINGS)

    def _build_views(self) -> None:
        database = self.database
        database.create_function("shown", 1, self._shown, deterministic=True)
        for view, name in self._view_tables.items():
            database.execute(f'CREATE TEMP VIEW "{view}" AS {self._filtered_select(name)}')
            query = f'SELECT * FROM temp."{view}"'
            database.execute(f"CREATE TEMP VIEW {name} AS {query}")
        for (text,) in database.execute("SELECT sql FROM main.sqlite_master WHERE type = 'view'"):
            database.execute(_CREATE_VIEW.sub(r"CREATE TEMP VIEW \1 AS ", text, count=1))

    def _filtered_select(self, table: str) -> str:
        table_filter = TABLE_FILTERS[table]
        columns = []
        for info in self.database.execute(f"PRAGMA main.table_xinfo({table})"):
            column = f'"{info[1]}"'
            if info[1] not in table_filter.keys:
                open_only = f"CASE WHEN {table_filter.condition} THEN {column} END"
                expression = _COLUMN_REPLACEMENTS.get((table, info[1]), "{}").format(open_only)
                column = f"{expression} AS {column}"
            columns.append(column)
        return f"SELECT {', '.join(columns)} FROM main.{table} WHERE {table_filter.condition}"

    def _shown(self, stored: str | None) -> str | None:
        """Return a thing's metadata (JSON) without its private keys."""
        if stored is None:
            return None
        if stored in self._metadata_cache:
            return self._metadata_cache[stored]
        metadata = read_object_or_none(stored) or {}
        allowed_keys = (
            PUBLIC_METADATA_KEYS | ADMIN_METADATA_KEYS if self.admin else PUBLIC_METADATA_KEYS
        )
        fields = {key: value for key, value in metadata.items() if key in allowed_keys}
        if self.admin:
            fields |= {
                key: dict.fromkeys(value, "…")
                for key, value in metadata.items()
                if key in MASKED_METADATA_KEYS and isinstance(value, dict)
            }
        text = json.dumps(fields, ensure_ascii=False)
        if len(self._metadata_cache) < MAX_CACHED_METADATA:
            self._metadata_cache[stored] = text
        return text

    def _authorize_action(
        self,
        action: int,
        first: str | None,
        second: str | None,
        database: str | None,
        source: str | None,
    ) -> int:
        from_view = source in self._view_tables
        name = (first or "").lower()
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            function = (second or "").lower()
            if function in ALLOWED_FUNCTIONS or (function == "shown" and from_view):
                return sqlite3.SQLITE_OK
            return self._deny_action("function", function)
        if action == sqlite3.SQLITE_READ:
            is_temp = database == "temp" and not name.startswith("sqlite_")
            # If no column of a table is read, SQLite passes only the table's name: also for WITH.
            is_bare_name = (
                not second and name not in self._stored_names and not name.startswith("sqlite_")
            )
            if (
                is_temp
                or is_bare_name
                or name in ALLOWED_TABLE_FUNCTIONS
                or (from_view and name in TABLE_FILTERS)
            ):
                return sqlite3.SQLITE_OK
            return self._deny_action("read", name)
        if action in _WRITE_ACTIONS:
            # SQLite writes the declaration of a virtual table to its own schema.
            return self._deny_action("virtual" if name.startswith("sqlite_") else "write", "")
        if action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH):
            return self._deny_action("attach", "")
        if action == sqlite3.SQLITE_PRAGMA:
            return self._deny_action("pragma", name)
        return self._deny_action("other", "")

    def _deny_action(self, action: str, name: str) -> int:
        if self.denied is None:
            self.denied = (action, name)
        return sqlite3.SQLITE_DENY
