"""Questions in SQL, for reports: answered by a process of its own, so that no question can change
anything, read what its asker may not, or hold up anybody. See `report_worker` for how."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from sshwarma.world import report_worker
from sshwarma.world.errors import Forbidden, Invalid, Refused, Unavailable

log = structlog.get_logger(__name__)

SECONDS: Final = 2.0
"""The longest a question may take."""

ROWS: Final = 200
CELL: Final = 1_000
"""Characters shown of one value."""

SIZE: Final = 64_000
"""Characters shown in all."""

MEMORY: Final = 128 << 20
"""Bytes a question may need."""

AT_ONCE: Final = 2
WAITING: Final = 20
PATIENCE: Final = 8.0
"""Seconds after which a process that does not answer is killed, its start included."""

READS: Final = frozenset({"SELECT", "WITH", "VALUES"})

READABLE: Final = frozenset(report_worker.GATES)
"""Tables that can be read, beside every view."""

_SPACE: Final = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?(?:\*/|$))*", re.DOTALL)
_WORD: Final = re.compile(r"\w+|\S")
_NEAR: Final = re.compile(r'near "(.+)": syntax error$')
_UNKNOWN: Final = re.compile(r"no such (table|column|function): (\S+)$")

Cell = None | int | float | str


@dataclass(frozen=True, slots=True)
class Scope:
    """Who asks: the ids of the logs they may read (rooms and private conversations), and whether
    they see what only admins do. Nobody sees secrets."""

    agent_id: str
    logs: tuple[str, ...]
    admin: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question gave: at most ROWS rows and SIZE characters, cells cut at CELL characters.
    `more` rows are not shown; if `uncounted`, at least so many."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    more: int = 0
    uncounted: bool = False
    cut_cells: int = 0


class Reports:
    """Answers questions about one database, AT_ONCE at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._running: set[Process] = set()

    async def ask(self, sql: str, scope: Scope) -> Answer:
        """The answer to one SELECT.

        Raises:
            Invalid: the statement is wrong, or none that reads; `at` is where, in `sql`.
            Forbidden: it asks for what cannot be read.
            Refused: it took too long, or too much memory.
            Unavailable: too many others are asking.
        """
        _check(sql)
        if self._waiting >= WAITING:
            raise Unavailable(
                f"{WAITING} questions are waiting already.", hint="Ask again in a moment."
            )
        self._waiting += 1
        try:
            async with self._slots:
                given = await self._run(
                    {
                        "path": str(self._path),
                        "sql": sql,
                        "agent": scope.agent_id,
                        "logs": scope.logs,
                        "admin": scope.admin,
                        "rows": ROWS,
                        "cell": CELL,
                        "size": SIZE,
                        "seconds": SECONDS,
                        "memory": MEMORY,
                    }
                )
        finally:
            self._waiting -= 1
        if "failure" in given:
            raise _refusal(sql, given)
        return Answer(
            tuple(given["columns"]),
            tuple(tuple(row) for row in given["rows"]),
            given["more"],
            given["uncounted"],
            given["cut_cells"],
        )

    async def close(self) -> None:
        """End what is still being answered."""
        for process in list(self._running):
            _kill(process)
            await process.wait()

    async def _run(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", report_worker.__file__),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env={},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            log.error("a report cannot start", error=str(error))
            return {"failure": "broken"}
        self._running.add(process)
        try:
            async with asyncio.timeout(PATIENCE):
                out, words = await process.communicate(json.dumps(asked).encode())
        except TimeoutError:
            return {"failure": "time"}
        finally:
            _kill(process)
            await asyncio.shield(process.wait())
            self._running.discard(process)
        if process.returncode == 0:
            given: dict[str, Any] = json.loads(out)
            return given
        if process.returncode in (-signal.SIGALRM, -signal.SIGXCPU):
            return {"failure": "time"}
        if b"MemoryError" in words:
            return {"failure": "memory"}
        if process.returncode == -signal.SIGKILL:  # by `close`, or by a system out of memory
            return {"failure": "killed"}
        log.error("a report failed", status=process.returncode, stderr=words[-2000:].decode())
        return {"failure": "broken"}


def _kill(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


def _check(sql: str) -> None:
    """Refuse what is not one statement that reads, before a process is started for it."""
    space = _SPACE.match(sql)
    word = _WORD.match(sql, space.end() if space else 0)
    if word is None:
        raise Invalid("Say what to select.", hint="As in SELECT name FROM tools.")
    if "\0" in sql:
        raise Invalid("A statement has no NUL in it.", at=(sql.index("\0"), sql.index("\0") + 1))
    if word[0].upper() not in READS:
        raise Invalid(
            f"{word[0][:40]} is not SELECT, WITH or VALUES: this reads, and changes nothing.",
            hint="/schema shows what there is to select from.",
            at=word.span(),
        )


def _refusal(sql: str, given: dict[str, Any]) -> Refused:
    """Why there is no answer, in words."""
    less = "Ask for less: one session_id, fewer joins, a LIMIT inside."
    match given["failure"]:
        case "denied":
            return _denied(sql, given["what"], given["name"])
        case "time":
            return Refused(f"It took longer than {SECONDS:g} s and was ended.", hint=less)
        case "memory":
            return Refused(
                f"It needed more than {MEMORY >> 20} MiB of memory and was ended.", hint=less
            )
        case "size":
            most = report_worker.VALUE >> 20
            return Refused(f"One value in it is over {most} MiB, which is the most.", hint=less)
        case "statements":
            return Invalid("One statement at a time.", hint="Leave out what follows the first ;")
        case "empty":
            return Invalid("Say what to select.", hint="As in SELECT name FROM tools.")
        case "wrong":
            return _wrong(sql, given["text"], given["near"])
        case "killed":
            return Unavailable("It was ended before there was an answer.")
    return Unavailable("It could not be answered; the operator can see why.")


def _denied(sql: str, what: str, name: str) -> Refused:
    at = _place(sql, name) if name else None
    match what:
        case "read" if name in READABLE:
            return Forbidden(
                f"{name} is read by that name alone.", hint=f"As in FROM {name}.", at=at
            )
        case "read":
            return Forbidden(
                f"{name} cannot be read here.", hint="/schema says what can be.", at=at
            )
        case "function":
            return Forbidden(f"The function {name} is not one that can be used here.", at=at)
        case "virtual":
            return Forbidden("A table in it cannot be read here.", hint="/schema says what can be.")
        case "write":
            return Forbidden("That would change something: this only reads.")
        case "pragma":
            return Forbidden("No PRAGMA here.", hint="/schema NAME shows the columns of a table.")
        case "attach":
            return Forbidden("No other file can be opened here.")
    return Forbidden("Only a SELECT can be asked here.")


def _wrong(sql: str, text: str, near: list[str]) -> Refused:
    """SQLite's own words, with the place they are about where that is plain."""
    syntax, unknown = _NEAR.match(text), _UNKNOWN.match(text)
    if syntax is not None:
        return Invalid(
            f"The SQL is not right at {syntax[1][:40]}.",
            at=_place(sql, syntax[1]),
            hint=_hint(near),
        )
    if unknown is not None:
        kind, name = unknown.groups()
        return Invalid(f"There is no {kind} {name[:60]}.", at=_place(sql, name), hint=_hint(near))
    if "because it is a view" in text:
        return Forbidden("That would change something: this only reads.")
    if "incomplete input" in text:
        return Invalid("The SQL ends too early.", at=(len(sql), len(sql)))
    if "bindings" in text:
        return Invalid("Nothing stands for ? or :name here.", hint="Write the value itself.")
    return Invalid(f"{text[:1].upper()}{text[1:300].rstrip('.')}.")


def _hint(near: list[str]) -> str:
    return f"Did you mean {' or '.join(near)}?" if near else "/schema shows what there is."


def _place(sql: str, word: str) -> tuple[int, int] | None:
    """Where a word stands, if it stands there once."""
    whole = rf"(?<!\w){re.escape(word)}(?!\w)" if word[0].isalnum() else re.escape(word)
    found = list(re.finditer(whole, sql, re.IGNORECASE))
    return found[0].span() if len(found) == 1 else None
