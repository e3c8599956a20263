"""Runs in the folder of a room, and what people read of its files."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from sshwarma.sandbox.host import SandboxUser
from sshwarma.workspaces import blobs as blobs_module
from sshwarma.workspaces import keep_both, run_folder
from sshwarma.workspaces import workspace as workspace_module
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.runs import RunFiles, WorkspaceRuns, describe_files
from sshwarma.workspaces.tree import Changes, Entry
from sshwarma.workspaces.workspace import Changed, Workspaces
from sshwarma.world import calls
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Unavailable
from sshwarma.world.schema import tool_calls
from sshwarma.world.world import World
from support.people import Someone, settle

MANY = 300


class GatedBlobs(BlobStore):
    """Blobs that are read when a gate is open."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.gate = threading.Event()
        self.gate.set()
        self.at_gate = threading.Event()
        self.found = 0
        """Blobs that were looked for."""

    def path_of(self, sha256: str) -> Path:
        self.found += 1
        if not self.gate.is_set():
            self.at_gate.set()
            self.gate.wait(30)
        return super().path_of(sha256)


class Shares:
    """What runs need of the sandboxes of a server, without any."""

    def require(self) -> None:
        """There could be one."""

    def __init__(self) -> None:
        self.slots = asyncio.Semaphore()

    def is_busy_for(self, user: SandboxUser) -> bool:
        return self.slots.locked()

    @asynccontextmanager
    async def take_slot(self, user: SandboxUser) -> AsyncIterator[None]:
        async with self.slots:
            yield

    @asynccontextmanager
    async def take_share(self, user: SandboxUser) -> AsyncIterator[None]:
        yield


@pytest.fixture
def blobs(tmp_path: Path) -> Iterator[GatedBlobs]:
    made = GatedBlobs(tmp_path / "blobs")
    yield made
    made.gate.set()


@pytest.fixture
def files(world: World, blobs: GatedBlobs) -> Workspaces:
    return Workspaces(world, blobs)


@pytest.fixture
def runs(files: Workspaces, tmp_path: Path) -> WorkspaceRuns:
    sandbox: Any = Shares()
    return WorkspaceRuns(files, sandbox, tmp_path / "rooms")


async def allow() -> None:
    """Check nothing."""


async def list_names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def make_entry(files: Workspaces, text: str) -> Entry:
    return Entry(files.blobs.store(text.encode()), size=len(text.encode()))


async def wait_for(event: threading.Event, task: asyncio.Task[Any]) -> None:
    while not event.is_set():
        assert not task.done()
        await asyncio.sleep(0.001)


async def test_stopped_run_writes_no_more_when_the_next_begins(
    alice: Someone, files: Workspaces, runs: WorkspaceRuns, blobs: GatedBlobs
) -> None:
    old: Changes = {f"f{number}": make_entry(files, f"old {number}") for number in range(MANY)}
    await files.change(alice.caller, lambda _: old)
    blobs.found = 0
    blobs.gate.clear()
    first = asyncio.create_task(runs.run(alice.caller, list_names, allow))
    await wait_for(blobs.at_gate, first)
    first.cancel()
    new: Changes = {**dict.fromkeys(old), "only": make_entry_later(blobs)}
    changing = asyncio.create_task(files.change(alice.caller, lambda _: new))
    second = asyncio.create_task(runs.run(alice.caller, list_names, allow))
    await changing
    assert not first.done()  # its thread writes still
    blobs.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    names, kept = await second
    assert names == ["only"]
    assert kept.changes == {}
    assert blobs.found < 10, "a stopped run writes the other files, too"
    _, tree = await files.read_tree(alice.room_id)
    assert list(tree) == ["only"]


def make_entry_later(blobs: GatedBlobs) -> Entry:
    """Store a content while the gate is closed for others."""
    return Entry(BlobStore(blobs.directory).store(b"x"), size=1)


class FullDisk:
    """Makes a disk full on which files are stored."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def fill(self) -> None:
        def fail(*_: Any) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        self._monkeypatch.setattr(blobs_module, "FileIO", fail)
        self._monkeypatch.setattr(run_folder, "_make_folder", fail)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


async def test_output_of_a_program_is_kept_when_its_files_cannot_be_stored(
    alice: Someone, runs: WorkspaceRuns, disk: FullDisk
) -> None:
    async def work(folder: Path) -> str:
        (folder / "made").write_text("made")
        disk.fill()
        return "its output"

    result, kept = await runs.run(alice.caller, work, allow)
    assert result == "its output"
    assert kept.problem == "they could not be stored: No space left on device"


async def test_stopped_run_on_a_full_disk_is_stopped(
    alice: Someone, runs: WorkspaceRuns, disk: FullDisk
) -> None:
    works = asyncio.Event()

    async def work(folder: Path) -> None:
        (folder / "made").write_text("made")
        disk.fill()
        works.set()
        await asyncio.Event().wait()

    run = asyncio.create_task(runs.run(alice.caller, work, allow))
    await works.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def test_run_on_a_full_disk_is_refused_and_leaves_no_files(
    alice: Someone, files: Workspaces, runs: WorkspaceRuns, disk: FullDisk, tmp_path: Path
) -> None:
    made: Changes = {"in/a": make_entry(files, "a")}
    await files.change(alice.caller, lambda _: made)
    disk.fill()
    with pytest.raises(Unavailable, match="The disk is full"):
        await runs.run(alice.caller, list_names, allow)
    assert list((tmp_path / "rooms").iterdir()) == []


async def test_too_many_files_for_the_room_are_a_clause(
    alice: Someone, files: Workspaces, runs: WorkspaceRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_module, "MAX_WORKSPACE_ENTRIES", 1)

    async def work(folder: Path) -> None:
        (folder / "a").write_text("a")
        (folder / "b").write_text("b")

    _, kept = await runs.run(alice.caller, work, allow)
    assert kept.problem.endswith("this would be 2")


async def begin_call(someone: Someone) -> Caller:
    """Record a call of a tool, and return the caller inside it."""
    call = await settle(
        someone.world,
        lambda tx: calls.record_call_start(
            tx, someone.room_id, someone.id, "kit:do", {}, turn_id=None, parent_row_id=None
        ),
    )
    return someone.caller.inside_call("kit:do", row_id=call.id)


async def read_call(someone: Someone, *columns: str) -> tuple[Any, ...]:
    query = select(*(tool_calls.c[column] for column in columns))
    return tuple(await someone.world.store.read(lambda conn: conn.execute(query).one()))


async def test_call_whose_files_are_not_kept_has_the_version_after_it(
    alice: Someone, files: Workspaces, runs: WorkspaceRuns, disk: FullDisk
) -> None:
    caller = await begin_call(alice)

    async def work(folder: Path) -> None:
        (folder / "made").write_text("made")
        disk.fill()

    _, kept = await runs.run(caller, work, allow)
    assert kept.problem
    version, tree = await files.read_tree(alice.room_id)
    assert version is not None and tree == {}
    ids = await read_call(alice, "pre_manifest_id", "post_manifest_id")
    assert ids == (version, version)


async def test_call_that_waits_for_a_slot_of_the_server_is_pending(
    alice: Someone, runs: WorkspaceRuns
) -> None:
    caller = await begin_call(alice)
    begun = await read_call(alice, "status", "started_at")
    slots: asyncio.Semaphore = runs.sandbox.slots  # type: ignore[attr-defined]
    async with slots:
        waiting = asyncio.create_task(runs.run(caller, list_names, allow))
        while (await read_call(alice, "status", "started_at")) == begun:
            assert not waiting.done()
        assert await read_call(alice, "status", "pre_manifest_id") == ("pending", None)
    await waiting
    status, started_at = await read_call(alice, "status", "started_at")
    assert status == begun[0] == "running" and started_at > begun[1]
    assert caller.call_stack is not None and caller.call_stack.run.waited > 0


async def test_call_that_is_stopped_while_it_waits_has_waited(
    alice: Someone, runs: WorkspaceRuns
) -> None:
    caller = await begin_call(alice)
    slots: asyncio.Semaphore = runs.sandbox.slots  # type: ignore[attr-defined]
    async with slots:
        waiting = asyncio.create_task(runs.run(caller, list_names, allow))
        while await read_call(alice, "status") != ("pending",):
            assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert await read_call(alice, "pre_manifest_id", "post_manifest_id") == (None, None)
    assert caller.call_stack is not None and caller.call_stack.run.waited > 0


async def test_call_that_waits_for_nothing_has_not_waited(
    alice: Someone, runs: WorkspaceRuns
) -> None:
    caller = await begin_call(alice)
    await runs.run(caller, list_names, allow)
    assert caller.call_stack is not None and caller.call_stack.run.waited == 0


async def test_files_of_a_run_are_merged_once_and_not_on_the_event_loop(
    alice: Someone, files: Workspaces, runs: WorkspaceRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    merging_threads: list[int] = []

    def merge(*args: Any) -> keep_both.KeptBoth:
        merging_threads.append(threading.get_ident())
        return merge_keeping_both(*args)

    merge_keeping_both = keep_both.merge_keeping_both
    monkeypatch.setattr(keep_both, "merge_keeping_both", merge)

    async def work(folder: Path) -> None:
        (folder / "a").write_text("of the run")
        other = make_entry(files, "of somebody else")
        await files.change(alice.caller, lambda _: {"a": other})

    _, kept = await runs.run(alice.caller, work, allow)
    assert dict(kept.kept_both) == {"a": "a.from-alice"}
    assert len(merging_threads) == 1
    assert threading.get_ident() not in merging_threads


async def test_run_that_leaves_what_somebody_has_stored_meanwhile_changes_nothing(
    alice: Someone,
    files: Workspaces,
    runs: WorkspaceRuns,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stored after the run has read the files, before its own change of them."""
    change = files.change

    async def change_second(*args: Any, **options: Any) -> Changed:
        await change(alice.caller, lambda _: {"a": make_entry(files, "same")})
        return await change(*args, **options)

    async def work(folder: Path) -> None:
        (folder / "a").write_text("same")

    monkeypatch.setattr(files, "change", change_second)
    _, kept = await runs.run(alice.caller, work, allow)
    assert kept == RunFiles()
    assert (tmp_path / "rooms" / alice.room_id / "a").read_text() == "same"


async def test_run_whose_lines_others_have_too_changes_nothing(
    alice: Someone, files: Workspaces, runs: WorkspaceRuns
) -> None:
    await files.change(alice.caller, lambda _: {"a": make_entry(files, "1\n2\n3\n4\n5\n")})

    async def work(folder: Path) -> None:
        (folder / "a").write_text("one\n2\n3\n4\n5\n")
        other = make_entry(files, "one\n2\n3\n4\nfive\n")
        await files.change(alice.caller, lambda _: {"a": other})

    _, kept = await runs.run(alice.caller, work, allow)
    assert (kept.problem, dict(kept.changes)) == ("", {})
    _, tree = await files.read_tree(alice.room_id)
    assert files.blobs.read(tree["a"].sha256) == b"one\n2\n3\n4\nfive\n"


async def test_one_run_of_each_person_waits_for_a_room(
    alice: Someone, bob: Someone, runs: WorkspaceRuns
) -> None:
    begun: list[str] = []
    may_end = asyncio.Event()

    async def run(name: str, who: Someone) -> None:
        async def work(folder: Path) -> None:
            begun.append(name)
            await may_end.wait()

        await runs.run(who.caller, work, allow)

    first = asyncio.create_task(run("alice 1", alice))
    while not begun:
        assert not first.done()
        await asyncio.sleep(0.001)
    others = [
        asyncio.create_task(run(name, who))
        for name, who in (("alice 2", alice), ("alice 3", alice), ("bob", bob))
    ]
    for _ in range(10):
        await asyncio.sleep(0)
    assert begun == ["alice 1"]
    may_end.set()
    await asyncio.gather(first, *others)
    assert set(begun[:3]) == {"alice 1", "bob", "alice 2"}
    assert begun[3] == "alice 3"


def test_names_that_are_left_out_are_shortened() -> None:
    deep = "/".join(["d" * 200] * 40)
    (note,) = describe_files(RunFiles(left_out=(deep, "pipe\x1b")))
    assert len(note) < 200
    assert "'pipe\\x1b'" in note


def test_many_files_of_two_versions_are_counted() -> None:
    kept = {f"f{number}": f"f{number}.from-ann" for number in range(2_000)}
    *notes, rest = describe_files(RunFiles(kept_both=kept))
    assert len(notes) == 10 and "f0.from-ann" in notes[0]
    assert rest == "So it is with 1,990 more: those whose names have .from- are the others."
