"""The processes that serve git: a few at once, each with its own limits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import weakref
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeAlias

import structlog

from sshwarma.common.files import measure_tree
from sshwarma.common.finish import finish
from sshwarma.common.limits import (
    GIT_CPU_SECONDS,
    GIT_WAIT_SECONDS,
    MAX_FILE_BYTES,
    MAX_GIT_CACHE_BYTES,
    MAX_GIT_CACHE_FILE_BYTES,
    MAX_GIT_MEMORY_BYTES,
    MAX_GIT_PUSH_BYTES,
    MAX_GIT_PUSH_OBJECTS,
    MAX_GIT_REPOSITORIES,
    MAX_GIT_SESSIONS,
    MAX_GIT_SESSIONS_PER_AGENT,
    MAX_GIT_UNPACKED_BYTES,
    MAX_WORKSPACE_BYTES,
    MAX_WORKSPACE_ENTRIES,
    MIN_GIT_FREE_BYTES,
)
from sshwarma.common.os_errors import describe_os_error
from sshwarma.common.processes import (
    SOURCE_FOLDER,
    end_process,
    find_library_folder,
    program_of,
    start_isolated,
)
from sshwarma.common.units import MIB
from sshwarma.git.access import GitAccess
from sshwarma.git.history import encode_versions, read_history
from sshwarma.git.known_versions import read_known_versions
from sshwarma.git.service_names import PUSH
from sshwarma.git.session import ByteStream, DamagedRepositoryError, GitSession
from sshwarma.workspaces.delete_tree import (
    delete_leftovers,
    delete_tree,
    list_set_aside,
    set_aside,
)
from sshwarma.workspaces.workspace import Workspaces
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Unavailable
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

_PROGRAM: Final = program_of("sshwarma.git.worker")

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]

CACHE_DIRECTORY: Final = "cache/git"
"""In the data directory: a repository for each room, by its id."""

WORK_DIRECTORY: Final = "work"
"""Beside the repositories: a directory for each session, with what is not finished."""


class GitHost:
    """The repositories in the cache, and the processes that use them."""

    def __init__(self, world: World, workspaces: Workspaces, spawn: Spawn) -> None:
        """Use the cache beside the contents, and delete what an ended server left.

        `spawn` runs what nobody waits for.
        """
        self._world = world
        self._workspaces = workspaces
        self._directory = workspaces.blobs.directory.parent / CACHE_DIRECTORY
        self._places = asyncio.Semaphore(MAX_GIT_SESSIONS)
        self._sessions: Counter[str] = Counter()  # by agent
        self._users: Counter[str] = Counter()  # of a repository, by room
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._spawn = spawn
        self._cleaning: asyncio.Task[None] | None = None
        try:
            set_aside(self._directory / WORK_DIRECTORY)
        except OSError as error:  # each session makes a directory of its own
            _log_kept(error)
        if list_set_aside(self._directory):
            self._spawn(self._delete_leftovers())

    @property
    def running(self) -> int:
        """Clones, fetches and pushes that have a process now."""
        return sum(self._users.values())

    async def serve(
        self,
        caller: Caller,
        service: str,
        stream: ByteStream,
        access: GitAccess,
    ) -> None:
        """Serve a clone, fetch or push of the caller's room.

        Args:
            caller: who may read the files, and for a push change them.
            service: `git-upload-pack` or `git-receive-pack`.
            stream: the client.
            access: says who may still do that.

        Raises:
            WorldError: if it is refused before the client was answered: a push also if the disk has
                less than MIN_GIT_FREE_BYTES.
            ConnectionError: if the client has gone.
        """
        room_id = caller.room_id
        if service == PUSH:
            await asyncio.to_thread(self._check_free_space)
        async with self._take_place(caller.agent.id):
            self._users[room_id] += 1
            try:
                try:
                    await self._serve_once(caller, service, stream, access)
                except DamagedRepositoryError as error:
                    log.warning("a repository is made again", room=room_id, reason=str(error))
                    await self._delete_repository(room_id, self._users[room_id])
                    if error.was_answered:
                        raise Unavailable("The repository was damaged. Try again.") from error
                    await self._serve_once(caller, service, stream, access)
            finally:
                self._users[room_id] -= 1
        if self._cleaning is None or self._cleaning.done():
            self._cleaning = self._spawn(self._delete_old_repositories())

    @contextlib.asynccontextmanager
    async def _take_place(self, agent_id: str) -> AsyncIterator[None]:
        """Wait for a place.

        Raises:
            Unavailable: if no place was free in time, or the agent has as many as one may have.
        """
        if self._sessions[agent_id] >= MAX_GIT_SESSIONS_PER_AGENT:
            raise Unavailable(
                f"You have {MAX_GIT_SESSIONS_PER_AGENT} clones, fetches or pushes in progress.",
                hint="Try again when one has ended.",
            )
        self._sessions[agent_id] += 1
        try:
            try:
                async with asyncio.timeout(GIT_WAIT_SECONDS):
                    await self._places.acquire()
            except TimeoutError:
                raise Unavailable(
                    f"{MAX_GIT_SESSIONS} clones, fetches and pushes of others are in progress.",
                    hint="Try again in a minute.",
                ) from None
            try:
                yield
            finally:
                self._places.release()
        finally:
            self._sessions[agent_id] -= 1

    async def _serve_once(
        self,
        caller: Caller,
        service: str,
        stream: ByteStream,
        access: GitAccess,
    ) -> None:
        work = self._directory / WORK_DIRECTORY / secrets.token_hex(8)
        try:
            await finish(asyncio.to_thread(work.mkdir, 0o700, parents=True))
            process = await _start_process()
            session = GitSession(process, stream, work, self._workspaces, access)
            try:
                base_id = await self._update(caller.room_id, service, process, session, work)
                await session.run(caller, base_id)
            finally:
                await finish(end_process(process, process.stdout, process.stderr))
        finally:
            await finish(asyncio.to_thread(delete_tree, work))

    async def _update(
        self, room_id: str, service: str, process: Process, session: GitSession, work: Path
    ) -> str | None:
        """Bring the repository of a room up to date; return the version that it has then."""
        repository = self._directory / room_id
        lock = self._locks.setdefault(room_id, asyncio.Lock())
        async with lock, _ending_if_failed(process):  # one process at a time writes there
            known = await asyncio.to_thread(read_known_versions, repository)
            history = await read_history(self._world, room_id, known.keys())
            request = {
                "service": service,
                "repository": str(repository),
                "blobs": str(self._workspaces.blobs.directory),
                "work": str(work),
                "base": history.base_id,
                "merges": self._users[room_id] == 1,
                "memory": MAX_GIT_MEMORY_BYTES,
                "cpu_seconds": GIT_CPU_SECONDS,
                "file_bytes": MAX_GIT_CACHE_FILE_BYTES,
                "push_bytes": MAX_GIT_PUSH_BYTES,
                "push_objects": MAX_GIT_PUSH_OBJECTS,
                "unpacked_bytes": MAX_GIT_UNPACKED_BYTES,
                "files": MAX_WORKSPACE_ENTRIES,
                "workspace_file_bytes": MAX_FILE_BYTES,
                "workspace_bytes": MAX_WORKSPACE_BYTES,
            }
            head = json.dumps(request).encode() + b"\n"
            await session.prepare(head, encode_versions(self._world, history))
        return history.active_id

    async def _delete_repository(self, room_id: str, users: int = 0) -> None:
        """Delete a repository that nobody but `users` sessions use."""
        lock = self._locks.setdefault(room_id, asyncio.Lock())
        async with lock:
            if self._users[room_id] <= users:
                await finish(asyncio.to_thread(delete_tree, self._directory / room_id))

    async def _delete_old_repositories(self) -> None:
        """Delete what is too much; a failure is logged, as the session has ended well."""
        try:
            for old_id in await asyncio.to_thread(self._list_old_repositories):
                await self._delete_repository(old_id)
        except OSError as error:
            _log_kept(error)

    async def _delete_leftovers(self) -> None:
        """Delete what was set aside; a failure is logged."""
        try:
            await asyncio.to_thread(delete_leftovers, self._directory)
        except OSError as error:
            _log_kept(error)

    def _list_old_repositories(self) -> list[str]:
        """Return the repositories that are too many or too large, used longest ago."""
        kept: list[tuple[float, str]] = []
        with os.scandir(self._directory) as entries:
            for entry in entries:
                if entry.name == WORK_DIRECTORY or entry.name.startswith("."):  # on its way out
                    continue
                with contextlib.suppress(FileNotFoundError):  # deleted by another session
                    kept.append((entry.stat().st_mtime, entry.name))
        size, old = 0, []
        for number, (_, name) in enumerate(sorted(kept, reverse=True)):
            size += measure_tree(self._directory / name)
            if number and (number >= MAX_GIT_REPOSITORIES or size > MAX_GIT_CACHE_BYTES):
                old.append(name)
        return old

    def _check_free_space(self) -> None:
        """Raise unless the disk can take a push.

        Raises:
            Unavailable: with what is free.
        """
        free = shutil.disk_usage(self._workspaces.blobs.directory.parent).free
        if free < MIN_GIT_FREE_BYTES:
            raise Unavailable(
                f"The disk of the server has {free // MIB:,} MiB free, and a push needs"
                f" {MIN_GIT_FREE_BYTES // MIB}.",
                hint="Ask the operator to make room.",
            )


def _log_kept(error: OSError) -> None:
    log.warning("old repositories were not deleted", reason=describe_os_error(error))


@contextlib.asynccontextmanager
async def _ending_if_failed(process: Process) -> AsyncIterator[None]:
    """End a process if what it does in the context fails or is cancelled."""
    try:
        yield
    except BaseException:
        await finish(end_process(process, process.stdout, process.stderr))
        raise


async def _start_process() -> Process:
    """Start a process for one session.

    Raises:
        Unavailable: if it cannot start.
    """
    try:
        library = find_library_folder("dulwich")
        return await start_isolated("-S", "-c", _PROGRAM, SOURCE_FOLDER, library)
    except ModuleNotFoundError as error:
        raise Unavailable("git cannot be served: dulwich is not installed.") from error
    except OSError as error:
        log.error("a process for git cannot start", error=str(error))
        raise Unavailable("git cannot be served now: its process cannot start.") from error
