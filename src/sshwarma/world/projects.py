"""Projects: named scopes of memory that rooms share, one for each directory.

A project is a container thing whose name is its canonical path, so that two spellings of one
directory reach the same project. The directory need not exist.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from cachetools import TTLCache
from sqlalchemy import Connection

from sshwarma.common.limits import (
    CANONICAL_PATH_SECONDS,
    MAX_CANONICAL_PATHS,
    MAX_PROJECT_PATH_CHARACTERS,
    PROJECT_PATH_SECONDS,
)
from sshwarma.common.shorten import shorten_name
from sshwarma.world import access, things
from sshwarma.world.errors import Invalid, TimedOut, empty_error, too_long_error
from sshwarma.world.room_states import read_directories, read_project_paths
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

MAX_LINKS: Final = 40
"""Links that a path may lead through, as for Linux itself."""

PROJECTS_ID: Final = "projects"
"""The container of all projects."""

PATH_KEY: Final = "path"
"""The key of a project's metadata that holds its path, for the views of the database."""


@dataclass(frozen=True, slots=True)
class ProjectPath:
    """The canonical path of a project, and how it was named.

    Attributes:
        path: absolute, without links, `.` and `..`.
        given: as it was given; "" for the project of the room.
        is_default: whether it is the project of the caller's room.
        is_by_link: whether the name leads to the path by a link.
    """

    path: str
    given: str
    is_default: bool
    is_by_link: bool = False


class ProjectPaths:
    """The projects that rooms use, by directory.

    Attributes:
        start_directory: the directory in which the server was started.
        is_pinned: whether all rooms use the project of that directory; else each room uses that of
            its own directory, if it has one.
    """

    def __init__(self, world: World, start_directory: Path, *, is_pinned: bool) -> None:
        self._world = world
        self.start_directory = str(start_directory)
        self.is_pinned = is_pinned
        self._start_path = os.path.realpath(start_directory)
        self._canonical: TTLCache[str, str] = TTLCache(
            MAX_CANONICAL_PATHS, CANONICAL_PATH_SECONDS, timer=time.monotonic
        )

    @classmethod
    async def open(cls, world: World, *, is_pinned: bool) -> ProjectPaths:
        """Return those of a server that starts in the directory of this process.

        Raises:
            TimedOut: if the file system does not answer.
        """
        paths = cls(world, Path.cwd(), is_pinned=is_pinned)
        await paths._store_missing()
        await paths._warn_of_owners()
        return paths

    @property
    def start_project(self) -> str:
        """The path of the project of the directory in which the server was started."""
        return self._start_path

    @property
    def pinned_project(self) -> str | None:
        """The path of the project that all rooms use; None if each has its own."""
        return self._start_path if self.is_pinned else None

    async def find_directory(self, room_id: str) -> str:
        """Return the directory of a room; the one of the start if it has none."""
        directories = await self._world.memoized("directories", read_directories)
        return directories.get(room_id) or self.start_directory

    async def find(self, room_id: str, project: str | None = None) -> ProjectPath:
        """Return the project of a name; without one, that of a room.

        A relative name is below the directory of the room.

        Raises:
            Invalid: if it cannot be a path.
            TimedOut: if the file system does not answer.
        """
        directory = await self.find_directory(room_id)
        of_room = self.pinned_project or await self._find_of_room(room_id)
        if project is None:
            return ProjectPath(of_room, "", True)
        if not project.strip():
            raise empty_error("project", hint="Leave it out for the project of the room.")
        if len(project) > MAX_PROJECT_PATH_CHARACTERS:
            raise too_long_error("project", len(project), MAX_PROJECT_PATH_CHARACTERS)
        if not project.isprintable():
            raise Invalid("project: is not a path: it has control characters.")
        typed = _join_path(directory, project)
        _check_place(_remove_dots(typed), project)
        path = await self._make_canonical(typed)
        _check_place(path, project)
        return ProjectPath(path, project, path == of_room, path != _remove_dots(typed))

    async def _find_of_room(self, room_id: str) -> str:
        paths = await self._world.memoized("projects of rooms", read_project_paths)
        return paths.get(room_id) or self._start_path

    async def is_used_by_rooms(self, path: str) -> bool:
        """Return whether some room uses the project of a canonical path as its own.

        Or would use it, if all rooms did not use that of the start.
        """
        return await self._world.store.read(lambda conn: self.is_used_in(conn, path))

    def is_used_in(self, conn: Connection, path: str) -> bool:
        """Return the same within a change."""
        return path == self._start_path or is_project_of_room(conn, path)

    async def resolve_directory(self, directory: str) -> str:
        """Return the path of the project of a directory, as its links lead now.

        Raises:
            Invalid: if it cannot be that of a project.
            TimedOut: if the file system does not answer.
        """
        if len(directory) > MAX_PROJECT_PATH_CHARACTERS:
            raise too_long_error("path", len(directory), MAX_PROJECT_PATH_CHARACTERS)
        _check_place(_remove_dots(_join_path("/", directory)), directory, "path")
        self._canonical.pop(directory, None)
        path = await self._make_canonical(directory)
        _check_place(path, directory, "path")
        return path

    async def _store_missing(self) -> None:
        """Store the projects of rooms whose directories were set by an earlier version."""

        def read(conn: Connection) -> dict[str, str]:
            known = read_project_paths(conn, with_deleted=True)
            directories = read_directories(conn, with_deleted=True)
            return {id: path for id, path in directories.items() if id not in known}

        found: dict[str, str] = {}
        for room_id, directory in (await self._world.store.read(read)).items():
            try:
                found[room_id] = await self._make_canonical(directory)
            except (Invalid, TimedOut):
                found[room_id] = _remove_dots(directory)

        def store(tx: Change) -> None:
            for room_id, path in found.items():
                things.set_metadata(tx, room_id, project_path=path)

        if found:
            await self._world.change(store)

    async def _warn_of_owners(self) -> None:
        """Log who owns the project of the start: they use it from everywhere."""
        owner_ids = await self._world.store.read(lambda conn: list_owners(conn, self._start_path))
        if owner_ids:
            owners = sorted(map(self._world.agents.name_of, owner_ids))
            log.warning(
                "somebody owns the project of the start",
                directory=self.start_directory,
                owners=owners,
            )

    async def _make_canonical(self, path: str) -> str:
        """Return the canonical path of a directory, as it was some seconds ago at most.

        In a thread: it may lead to a file system that does not answer.

        Raises:
            TimedOut: if it does not.
        """
        known = self._canonical.get(path)
        if known is None:
            try:
                async with asyncio.timeout(PROJECT_PATH_SECONDS):
                    known = await asyncio.to_thread(follow_links, path)
            except TimeoutError:
                raise TimedOut("The directory of the project does not answer.") from None
            except OSError:
                raise Invalid(f"The links of {shorten_name(path)} cannot be followed.") from None
            self._canonical[path] = known
        return known


def _join_path(directory: str, project: str) -> str:
    """Return a path below a directory, or an absolute one; with one slash before it.

    POSIX lets two slashes stand for something else, and Python keeps them; Linux does not.
    """
    return "/" + str(Path(directory) / project).lstrip("/")


def _remove_dots(path: str) -> str:
    """Return a path without `.` and `..`, as its text says."""
    return os.path.normpath(path)


def follow_links(path: str) -> str:
    """Return where an absolute path leads, which need not exist.

    Like `os.path.realpath`, but no link on the way may lead through the files that the kernel
    makes: they say what the server has open.

    Raises:
        Invalid: if one does.
        OSError: if the server may not read one, if a name is too long, or if there are more links
            than the system follows.
    """
    done, links = "/", 0
    pending = path.split("/")
    while pending:
        name = pending.pop(0)
        if name in ("", "."):
            continue
        following = str(Path(done).parent if name == ".." else Path(done, name))
        if following != "/dev":  # /dev/shm is a place
            _check_place(following, path)
        try:
            target = str(Path(following).readlink())
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                raise
            done = following  # no link, or nothing there
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        done = "/" if target.startswith("/") else done
        pending = target.split("/") + pending
    return done


def is_place(path: str) -> bool:
    """Return whether a canonical path can be that of a project."""
    try:
        _check_place(path, path)
    except Invalid:
        return False
    return True


def _check_place(path: str, given: str, argument: str = "project") -> None:
    """Raise Invalid for a path among the files that the kernel makes.

    Their links would say what the server has open.
    """
    top, *others = path.split("/")[1:]
    if top in ("proc", "sys") or (top == "dev" and others[:1] != ["shm"]):
        raise Invalid(f"{argument}: {shorten_name(given)} is no directory for a project.")


def is_project_of_room(conn: Connection, path: str) -> bool:
    """Return whether a canonical path is that of the project of some room.

    A directory that an earlier version has set is resolved at the next start; until then, only its
    own path is known.
    """
    found = read_project_paths(conn, with_deleted=True)
    directories = read_directories(conn, with_deleted=True)
    return path in found.values() or any(
        _remove_dots(directory) == path for id, directory in directories.items() if id not in found
    )


def list_owners(conn: Connection, path: str) -> list[str]:
    """Return the ids of the owners of the project of a canonical path."""
    project = find_project(conn, path)
    members = {} if project is None else access.read_members(conn, project.id)
    return [member.agent_id for member in members.values() if member.role == "owner"]


def find_project(conn: Connection, path: str) -> Thing | None:
    """Return the project of a canonical path, if anything was stored for it."""
    return things.find_child(conn, PROJECTS_ID, path, "container")


def create_project(tx: Change, path: str, *, owner_id: str | None, created_by: str) -> Thing:
    """Create the project of a canonical path, which has none yet.

    Raises:
        Conflict: if it has one.
    """
    project = things.create_thing(
        tx,
        PROJECTS_ID,
        "container",
        path,
        metadata={PATH_KEY: path},
        created_by=created_by,
        structural=False,
    )
    if owner_id is not None:
        access.set_member(tx, project.id, owner_id, created_by=created_by, role="owner")
    return project


def read_projects(conn: Connection) -> list[Thing]:
    """Return all projects, by path."""
    return things.read_children(conn, PROJECTS_ID, "container", texts=False)
