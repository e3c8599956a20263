"""What a server does for its world by itself: backups, retention, free space."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from sshwarma.admin.backup_names import BackupName, choose_directory
from sshwarma.admin.damaged_contents import describe_listed
from sshwarma.admin.scheduled_backups import BackupDirectory, ScheduledBackup
from sshwarma.admin.world_place import PostgresWorld, WorldPlace
from sshwarma.common.background import ignore_outcome
from sshwarma.common.durations import parse_duration
from sshwarma.common.os_errors import describe_os_error
from sshwarma.common.reported_error import ReportedError
from sshwarma.common.units import DAY_MS, HOUR_SECONDS, MIB, MINUTE_SECONDS
from sshwarma.settings import ReloadableSettings
from sshwarma.world.audit import delete_audit_before, delete_audit_row, record_change
from sshwarma.world.databases import DatabaseUrl
from sshwarma.world.errors import WorldError
from sshwarma.world.free_pages import PAGES_PER_STEP, read_free_pages, return_pages, shrink_files
from sshwarma.world.garbage import find_deleted_things, purge_deleted_things, split_purge
from sshwarma.world.identity import read_world_id
from sshwarma.world.store import Change
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

CHECK_SECONDS: Final = MINUTE_SECONDS
"""Seconds between two looks whether something is due."""

RETRY_SECONDS: Final = HOUR_SECONDS
"""Seconds after which a backup that failed is tried again."""

CLEANUP_SECONDS: Final = HOUR_SECONDS
"""Seconds between two deletions of what is older than the settings allow."""

AUDIT_ROWS_PER_STEP: Final = 500
"""Rows that one change deletes, so that other changes need not wait for it."""

PAUSE_SECONDS: Final = 0.05
"""Seconds between two steps: a long deletion takes a small part of the writer's time."""

MIN_FREE_PAGES: Final = 4 * PAGES_PER_STEP
"""Unused pages that are left to the database, because new rows need some: 3 MiB."""


@dataclass(frozen=True, slots=True)
class BackupFailure:
    """A backup that could not be made.

    Attributes:
        at: when, in seconds since 1970.
        directory: where it should have been; settings may name another one since.
        reason: why.
    """

    at: float
    directory: Path
    reason: str


class _StoppedError(Exception):
    """The server stops, and with it a backup."""


class Upkeep:
    """Makes backups and deletes what is too old, as the settings in force say.

    Attributes:
        failed_backups: how many backups have failed since the start.
        newest_backup: when the newest was made, in seconds since 1970; None if none is known.
        is_newest_complete: whether it has all contents of files.
        failure: where, when and why the last try has failed; None after a backup, and once it is
            about a directory that the settings no longer name.
    """

    def __init__(
        self,
        world: World,
        data_dir: Path,
        settings: ReloadableSettings,
        clock: Callable[[], float] = time.time,
        database: DatabaseUrl | None = None,
    ) -> None:
        self.failed_backups = 0
        self.newest_backup: float | None = None
        self.is_newest_complete = True
        self.failure: BackupFailure | None = None
        self._world = world
        self._data_dir = data_dir
        self._database = database  # None: the world is in a file
        self._settings = settings
        self._clock = clock  # the time of day, as that of files: the machine may have slept
        self._world_id: str | None = None
        self._last_failure: float | None = None
        self._last_cleanup: float | None = None
        self._known_settings = settings.backup  # at the last look after a reload
        self._is_reloaded = False
        self._woken = asyncio.Event()

    @property
    def backup_interval(self) -> int | None:
        """Seconds between two backups, or None if the server makes none."""
        return parse_duration(self._settings.backup.every)

    @property
    def backups_directory(self) -> Path:
        """The directory of the backups that the server makes."""
        return choose_directory(self._data_dir, self._settings.backup)

    async def watch(self) -> None:
        """Do what is due, until cancelled."""
        while True:
            self._woken.clear()
            await self.run_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._woken.wait()

    def wake(self) -> None:
        """Look at once, because the settings were read again; nothing is recent then."""
        self._is_reloaded = True
        self._last_cleanup = None
        self._forget_failure(None)  # doctor may ask before the look
        self._woken.set()

    async def run_due(self) -> None:
        """Do what is due now. A failure is logged, and tried again later."""
        if await self._is_backup_due():
            await self._back_up()
        if not self._is_recent(self._last_cleanup, CLEANUP_SECONDS):
            self._last_cleanup = self._clock()
            try:
                await self._delete_old()
                if self._settings.retention.vacuum:
                    await self.return_free_pages(MIN_FREE_PAGES)
            except WorldError as error:
                log.error("old rows were not deleted", reason=str(error))

    async def return_free_pages(self, keep: int = 0) -> tuple[int, bool]:
        """Return unused pages to the disk in steps, all but `keep`.

        Returns:
            The bytes that were returned, and whether the files are smaller by them already.

        Raises:
            Unavailable: if the world cannot be written to.
        """
        store, returned = self._world.store, 0
        free = await store.read(read_free_pages)
        while free.can_shrink and free.count > keep:
            await store.write(return_pages, may_postpone=True)
            await asyncio.sleep(PAUSE_SECONDS)
            left = await store.read(read_free_pages)
            if left.count >= free.count:  # people remove faster than this returns
                break
            returned += free.size - left.size
            free = left
        is_shrunk = await asyncio.to_thread(shrink_files, store.path) if returned else True
        if returned:
            mib = round(returned / MIB, 1)
            log.info("space was returned to the disk", mib=mib, at_once=is_shrunk)
        return returned, is_shrunk

    async def _is_backup_due(self) -> bool:
        is_asked_for = self._take_reload()
        interval, path = self.backup_interval, self.backups_directory
        if interval is None:
            self.newest_backup = self.failure = None
            return False
        if self._is_recent(self._last_failure, min(interval, RETRY_SECONDS)):
            return False
        try:
            directory = await self._open_directory()
            newest = await asyncio.to_thread(directory.find_newest, self._clock())
            self.newest_backup = None if newest is None else newest.made_at
            self.is_newest_complete = newest is None or newest.is_complete
        except Exception as error:  # noqa: BLE001 - as `_back_up`
            self.newest_backup = None
            self._report_failure(error, path)
            return False
        self._forget_failure(newest)
        return is_asked_for or not self._is_recent(self.newest_backup, interval)

    def _take_reload(self) -> bool:
        """Return whether a reload since the last look asks for a backup now.

        It does if the last one has failed, because its reason may be gone, or if settings of
        backups have changed, which only a backup proves. One that fails meanwhile counts, too.
        """
        if not self._is_reloaded:
            return False
        before, self._known_settings = self._known_settings, self._settings.backup
        is_asked_for = self._last_failure is not None or before != self._known_settings
        self._is_reloaded, self._last_failure = False, None
        return is_asked_for

    def _forget_failure(self, newest: BackupName | None) -> None:
        """Forget a failure in another directory, or before a newer complete backup."""
        failure = self.failure
        if failure is None:
            return
        is_mended = newest is not None and newest.is_complete and newest.made_at > failure.at
        if is_mended or failure.directory != self.backups_directory:
            self.failure = None

    async def _open_directory(self) -> BackupDirectory:
        """Return the directory of the backups of this world.

        Raises:
            WorldError: if the id of the world cannot be read, which happens once.
        """
        if self._world_id is None:
            self._world_id = await self._world.store.read(read_world_id)
        return BackupDirectory(self.backups_directory, self._world_id)

    def _is_recent(self, moment: float | None, seconds: float) -> bool:
        """Return whether it was less than `seconds` ago; a time to come was not."""
        return moment is not None and 0 <= self._clock() - moment < seconds

    async def _back_up(self) -> None:
        place, directory = self._find_place(), await self._open_directory()
        keep, now, started = self._settings.backup.keep, self._clock(), time.monotonic()
        stopping = threading.Event()

        def check() -> None:
            if stopping.is_set():
                raise _StoppedError

        making = asyncio.create_task(
            asyncio.to_thread(directory.make_backup, place, keep, now, check)
        )
        try:
            made: ScheduledBackup = await asyncio.shield(making)
        except asyncio.CancelledError:
            stopping.set()  # the thread ends within milliseconds, and leaves nothing
            await asyncio.wait([making])
            ignore_outcome(making)
            raise
        except Exception as error:  # noqa: BLE001 - retention goes on, and the next try is in an hour
            self._report_failure(error, directory.path)
            return
        self._last_failure = self.failure = None
        self.newest_backup, self.is_newest_complete = now, made.left_out is None
        log.info(
            "backup",
            file=str(made.path),
            bytes=made.size,
            seconds=round(time.monotonic() - started, 1),
            deleted=list(made.deleted),
        )
        if made.left_out is not None:
            log.warning(
                "the backup lacks contents of files",
                file=str(made.path),
                contents=made.left_out["contents"],
                files=describe_listed(made.left_out["files"], made.left_out["uses"]),
                hint="complete backups are kept; sshwarma doctor says what to do",
            )

    def _find_place(self) -> WorldPlace:
        """Return where the world is."""
        store = self._world.store
        return (
            store.path if self._database is None else PostgresWorld(self._database, self._data_dir)
        )

    def _report_failure(self, error: Exception, directory: Path) -> None:
        self._last_failure = self._clock()
        self.failed_backups += 1
        is_expected = isinstance(error, OSError | ReportedError)
        reason = describe_os_error(error) if isinstance(error, OSError) else str(error)
        self.failure = BackupFailure(self._last_failure, directory, reason)
        log.error(
            "the backup failed",
            directory=str(directory),
            reason=reason,
            exc_info=None if is_expected else error,
        )

    async def _delete_old(self) -> None:
        """Delete what is older than the settings of `[retention]` allow."""
        retention = self._settings.retention
        if retention.audit_days is not None:
            await self._delete_audit(retention.audit_days)
        if retention.deleted_days is not None:
            await self._purge_things(retention.deleted_days)

    async def _purge_things(self, days: int) -> None:
        """Remove things for good in steps, each with a row of the audit."""
        count, world = 0, self._world
        found = await world.store.read(lambda conn: find_deleted_things(conn, days))
        for step in split_purge(found):
            count += await world.change(partial(_purge_step, days=days, ids=step))
            await asyncio.sleep(PAUSE_SECONDS)
        if count:
            log.info("deleted things were purged", count=count, days=days)

    async def _delete_audit(self, days: int) -> None:
        """Delete old rows of the audit in steps, which leave one row together."""
        before = int(self._clock() * 1000) - days * DAY_MS
        deleted, row = 0, None
        while True:
            step = partial(_delete_audit_step, before=before, days=days, deleted=deleted, row=row)
            count, row = await self._world.store.write(step, may_postpone=True)
            deleted += count
            if count < AUDIT_ROWS_PER_STEP:
                break
            await asyncio.sleep(PAUSE_SECONDS)
        if deleted:
            log.info("old rows of the audit were deleted", count=deleted)


def _delete_audit_step(
    tx: Change, *, before: int, days: int, deleted: int, row: int | None
) -> tuple[int, int | None]:
    """Delete some old rows of the audit, and replace the row that says so.

    Args:
        tx: the change.
        before: rows of an earlier time go, in milliseconds since 1970.
        days: the setting `audit_days`.
        deleted: rows that the run has deleted before.
        row: number of its own row, if it has one.

    Returns:
        How many rows were deleted, and the number of the run's row.
    """
    if row is not None:
        delete_audit_row(tx, row)
    count = delete_audit_before(tx, before, AUDIT_ROWS_PER_STEP)
    if not deleted + count:
        return 0, None
    request = f"delete {deleted + count} rows of the audit, audit_days = {days}"
    return count, record_change(tx, door="server", verb="retention", request=request)


def _purge_step(tx: Change, days: int, ids: list[str]) -> int:
    """Remove those of some things that are still deleted; return their number."""
    count = len(purge_deleted_things(tx, days, ids).things)
    if count:
        request = f"purge {count} things, deleted_days = {days}"
        record_change(tx, door="server", verb="retention", request=request)
    return count
