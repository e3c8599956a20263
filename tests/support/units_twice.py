"""The mode `--units=twice`: units of work run, are rolled back, and run again.

A store whose transaction may fail for no fault of its units, such as PostgreSQL after a deadlock,
runs them again. So a unit changes nothing but through its `Change`: what the first run leaves
behind shows in what the second does. The files in `lanes.UNITS_TWICE` run so by default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from support import lanes

if TYPE_CHECKING:
    from sshwarma.world.events import Event
    from sshwarma.world.store import Change, Store

T = TypeVar("T")


@dataclass(slots=True)
class _Run:
    """What one run of a unit did.

    Attributes:
        error: the type of what it raised.
        answer: what it returned, if that is a bool or None; else its type. PostgreSQL takes back no
            number that it has given.
        written: number of rows of the database that it inserted, changed or deleted, in SQLite.
        events: what it would publish, without ids and times.
    """

    error: type[BaseException] | None = None
    answer: object = None
    written: int = 0
    events: list[object] = field(default_factory=list)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--units",
        choices=("once", "twice"),
        help="run each unit of work once, or twice, the first time in vain; without this, twice in"
        " the files of UNITS_TWICE in tests/support/lanes.py",
    )


@pytest.fixture
def units_twice() -> Iterator[None]:
    """Run units of work twice; fail the test if a second run differs."""
    from sshwarma.world.store import Store

    differing: list[str] = []
    write = Store.write

    async def write_twice(
        store: Store, work: Callable[[Change], T], *, may_postpone: bool = False
    ) -> T:
        return await write(
            store, run_twice(store, work, differing.append), may_postpone=may_postpone
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "write", write_twice)
        yield
    # Here, too, because what the unit raises may be caught by its caller.
    assert not differing


@pytest.fixture(autouse=True)
def units_as_asked(request: pytest.FixtureRequest) -> None:
    """Run units as `--units`, the file or the mark `units_once` says."""
    file = "/".join(request.path.parts[-2:])
    asked = request.config.getoption("--units") or (file in lanes.UNITS_TWICE and "twice")
    if asked == "twice" and request.node.get_closest_marker("units_once") is None:
        request.getfixturevalue("units_twice")


def run_twice(
    store: Store, work: Callable[[Change], T], tell: Callable[[str], None]
) -> Callable[[Change], T]:
    """Return a unit that runs another, takes all of it back, and runs it again.

    It tells of a second run that differs from the first, and raises AssertionError.
    """

    def run(tx: Change) -> T:
        from sshwarma.world.dialect import AbandonedTransactionError

        first = _run_in_vain(store, tx, work)
        second = _Run()
        before = _count_changes(tx)
        try:
            result = work(tx)
            second.answer = _describe_answer(result)
            return result
        except BaseException as error:
            second.error = type(error)
            raise
        finally:
            second.written = _count_changes(tx) - before
            second.events = _describe_events(tx)
            # The connection may be lost between the two.
            if first != second and second.error is not AbandonedTransactionError:
                tell(f"{_name_unit(work)}: first {first}, then {second}")
                raise AssertionError("a unit of work cannot be run twice")

    return run


def _run_in_vain(store: Store, tx: Change, work: Callable[[Change], Any]) -> _Run:
    """Run a unit with a `Change` of its own and roll it back; return what it did."""
    from sshwarma.world.dialect import AbandonedTransactionError
    from sshwarma.world.store import Change

    writer = tx._writer
    change, run, raised = Change(writer), _Run(), None
    before = _count_changes(tx)
    try:
        run.answer = _describe_answer(work(change))
    except BaseException as error:
        if store.dialect.ends_batch(error):
            raise
        run.error, raised = type(error), error
    run.written = _count_changes(tx) - before
    run.events = _describe_events(change)
    try:
        writer.undo_unit()
    except AbandonedTransactionError as ended:  # of a full disk: nothing can be run again
        raise raised or ended from None
    writer.begin_unit()
    return run


def _describe_answer(result: object) -> object:
    return result if isinstance(result, bool | None) else type(result)


def _describe_events(tx: Change) -> list[object]:
    return [_describe_event(event) for event in tx.events]


def _describe_event(event: Event) -> object:
    from sshwarma.world.events import RowAppended

    if isinstance(event, RowAppended):
        return (event.row.kind, event.row.seq, event.row.content)
    return type(event)


def _name_unit(work: Callable[..., Any]) -> str:
    """Return where a unit is defined, inside what others have put around it."""
    while inspect.isfunction(work):
        inner = inspect.getclosurevars(work).nonlocals.get("work")
        if inner is None:
            break
        work = inner
    code = getattr(getattr(work, "func", work), "__code__", None)
    return repr(work) if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def _count_changes(tx: Change) -> int:
    """Return how many rows SQLite has written so far; 0 for other databases."""
    return getattr(tx.conn.connection.driver_connection, "total_changes", 0)
