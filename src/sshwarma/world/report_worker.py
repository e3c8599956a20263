"""Run one SQL query in a process of its own, limited to rows the asker may read.

`reports` starts it; besides `report_access`, which holds two lines of defence, it uses little more
than the standard library. The third is the process: the kernel limits time, memory and file size,
so one endless `replace()`, which no handler inside SQLite could stop, ends with the process.

In: one JSON object on stdin (see `main`). Out: one JSON object on stdout, a result or a failure.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sshwarma.common.near_names import find_near_names
from sshwarma.common.sqlite import CLOCK_CHECK_INSTRUCTIONS
from sshwarma.world.report_access import RestrictedDatabase

KILL_GRACE_SECONDS: Final = 0.5
"""Seconds after the time limit, when the process is killed (SIGALRM)."""

MAX_COUNTED_ROWS: Final = 10_000
"""Rows counted, though not shown."""

MAX_HEADING_CHARACTERS: Final = 60
"""Maximum length of a column's name."""


class QueryRunner:
    """Runs one statement and keeps its result, within the limits."""

    def __init__(self, scope: RestrictedDatabase, request: dict[str, Any]) -> None:
        self._scope = scope
        seconds: float = request["seconds"]
        self._max_rows: int = request["rows"]
        self._max_cell_characters: int = request["cell"]
        self._max_characters: int = request["size"]
        self._deadline = time.monotonic() + seconds
        self._cut_cells = 0

    def run(self, sql: str) -> dict[str, Any]:
        """Run the statement and return its result."""
        database = self._scope.database
        database.set_progress_handler(self._is_late, CLOCK_CHECK_INSTRUCTIONS)
        cursor = database.execute(sql)
        if cursor.description is None:
            return {"failure": "empty"}
        columns = [_cut_text(column[0], MAX_HEADING_CHARACTERS) for column in cursor.description]
        rows: list[list[Any]] = []
        size = extra_rows = 0
        uncounted = full = False
        try:
            for row in cursor:
                if not full and len(rows) < self._max_rows:
                    cut_cells = self._cut_cells
                    cells = [self._shown(value) for value in row]
                    size += sum(len(str(cell)) for cell in cells)
                    if size <= self._max_characters or not rows:
                        rows.append(cells)
                        continue
                    full, self._cut_cells = True, cut_cells
                extra_rows += 1
                if len(rows) + extra_rows >= MAX_COUNTED_ROWS:
                    uncounted = True
                    break
        except sqlite3.OperationalError as error:
            if "interrupted" not in str(error) or not extra_rows:
                raise
            uncounted = True
        return {
            "columns": columns,
            "rows": rows,
            "more": extra_rows,
            "uncounted": uncounted,
            "cut_cells": self._cut_cells,
        }

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline

    def _shown(self, value: Any) -> Any:
        if isinstance(value, bytes):
            value = f"x'{value[: self._max_cell_characters].hex()}'"
        if isinstance(value, float) and not math.isfinite(value):
            value = str(value)
        if isinstance(value, str) and len(value) > self._max_cell_characters:
            self._cut_cells += 1
            return _cut_text(value, self._max_cell_characters)
        return value


def main() -> None:
    """Read the request from stdin, write the result to stdout.

    The request is what `reports.Reports` sends: path, sql, ids of the asker's logs, and limits.
    """
    request = json.load(sys.stdin.buffer)
    try:
        result = _run_request(request)
    except MemoryError:
        result = {"failure": "memory"}
    json.dump(result, sys.stdout)
    sys.stdout.flush()


def _run_request(request: dict[str, Any]) -> dict[str, Any]:
    scope = RestrictedDatabase(request)
    _limit_resources(request["memory"], request["seconds"])
    # No handler of SQLite can end one long function; the kernel does, a little later.
    signal.setitimer(signal.ITIMER_REAL, request["seconds"] + KILL_GRACE_SECONDS)
    try:
        return QueryRunner(scope, request).run(request["sql"])
    except (sqlite3.Error, sqlite3.Warning) as error:
        return _describe_failure(scope, str(error))


def _describe_failure(scope: RestrictedDatabase, text: str) -> dict[str, Any]:
    """Return the failure as fields, which `reports` turns into a message."""
    if scope.denied is not None:
        action, name = scope.denied
        return {"failure": "denied", "what": action, "name": name}
    if "interrupted" in text:
        return {"failure": "time"}
    if "out of memory" in text:
        return {"failure": "memory"}
    if "too big" in text:
        return {"failure": "size"}
    if "one statement at a time" in text:
        return {"failure": "statements"}
    return {"failure": "wrong", "text": text, "near": list(_find_similar_names(scope, text))}


def _find_similar_names(scope: RestrictedDatabase, text: str) -> Iterator[str]:
    """Return readable names that are similar to the unknown one in SQLite's message."""
    match = re.match(r"no such (table|column): (?:\w+\.)?(\w+)$", text)
    if match is None:
        return
    relations = scope.read_relations()
    names = relations if match[1] == "table" else {c for cs in relations.values() for c in cs}
    yield from find_near_names(match[2], names)


def _cut_text(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _limit_resources(memory: int, seconds: float) -> None:
    """Limit memory over the present use, processor time and file size, irrevocably."""
    os.nice(5)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu_seconds = math.ceil(usage.ru_utime + usage.ru_stime + seconds) + 1
    limits = {resource.RLIMIT_CPU: cpu_seconds, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    statm = Path("/proc/self/statm")
    if statm.exists():  # elsewhere the limits on values and on time must suffice
        pages = int(statm.read_text("ascii").split()[0])
        limits[resource.RLIMIT_AS] = pages * resource.getpagesize() + memory
    for limit, value in limits.items():
        resource.setrlimit(limit, (value, value))
