"""The names that an agent had, as the audit tells them.

Only the command line renames and removes agents, and leaves a row of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, func, or_, select

from sshwarma.world.errors import Invalid
from sshwarma.world.schema import audit

MAX_OTHER_NAMES: Final = 400
"""Other names that one search follows: SQLite refuses conditions of a thousand parts."""


@dataclass(frozen=True, slots=True)
class NameUse:
    """The use of a name by one agent: in rows `after` a number, and `until` one."""

    name: str
    after: int | None
    until: int | None


@dataclass(frozen=True, slots=True)
class _NameEnd:
    """A row that ended the use of a name; `new` is None if the agent was removed."""

    n: int
    name: str
    new: str | None


def list_other_names(conn: Connection, name: str) -> list[NameUse]:
    """Return the other names of agents that have or had a name, with their times.

    Raises:
        Invalid: if they are more than MAX_OTHER_NAMES.
    """
    ends, name = _read_ends(conn), name.lower()
    uses = {
        use
        for end in ends
        for use in (
            *(_list_earlier(ends, end) if end.new == name else ()),
            *(_list_later(ends, end) if end.name == name else ()),
        )
    }
    if len(uses) > MAX_OTHER_NAMES:
        raise Invalid(f"Agents that had the name {name} have more than {MAX_OTHER_NAMES} others.")
    return sorted(uses, key=lambda use: (use.name, use.after or 0))


def _read_ends(conn: Connection) -> list[_NameEnd]:
    """Return the rows of renamed and removed agents, the oldest first."""
    what = func.lower(audit.c.what)
    query = select(audit.c.n, what.label("what")).order_by(audit.c.n)
    query = query.where(audit.c.door == "cli", audit.c.verb == "agents")
    query = query.where(or_(what.like("rename % %"), what.like("remove %")))
    ends = []
    for n, text in conn.execute(query):
        _, name, *new = (word.removeprefix("@") for word in text.split())
        ends.append(_NameEnd(n, name, new[0] if new else None))
    return ends


def _list_earlier(ends: list[_NameEnd], end: _NameEnd | None) -> Iterator[NameUse]:
    """Yield the name that a row ended, and those that the agent had before."""
    while end is not None:
        # The agent got the name by this row; or another one gave it up by it.
        start = next(
            (one for one in reversed(ends) if one.n < end.n and (end.name in (one.name, one.new))),
            None,
        )
        yield NameUse(end.name, start.n if start is not None else None, end.n)
        end = start if start is not None and start.new == end.name else None


def _list_later(ends: list[_NameEnd], end: _NameEnd | None) -> Iterator[NameUse]:
    """Yield the name that followed one which a row ended, and those after it."""
    while end is not None and end.new is not None:
        new, start = end.new, end.n
        end = next((one for one in ends if one.n > start and one.name == new), None)
        yield NameUse(new, start, end.n if end is not None else None)
