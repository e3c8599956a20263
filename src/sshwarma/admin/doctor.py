"""`sshwarma doctor`: finds problems of an installation, and says how to fix them."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from sshwarma.admin import data_dir_owner
from sshwarma.admin.backup_names import choose_directory
from sshwarma.admin.check_result import CheckResult, warn
from sshwarma.admin.data_dir_lock import MovedServerError, check_no_server_was_moved
from sshwarma.admin.data_dir_modes import OPERATOR_KEY_NAME
from sshwarma.admin.database_copy import is_disk_full
from sshwarma.admin.doctor_backups import check_made_backups
from sshwarma.admin.doctor_files import check_files
from sshwarma.admin.doctor_locks import check_write_lock
from sshwarma.admin.doctor_models import check_world_models
from sshwarma.admin.doctor_network import check_network
from sshwarma.admin.doctor_postgres import check_postgres
from sshwarma.admin.doctor_providers import check_mcp_servers
from sshwarma.admin.doctor_sandbox import check_sandbox
from sshwarma.admin.doctor_server import ask_for_source
from sshwarma.admin.lost_world import (
    LostWorldError,
    check_no_server_holds_it,
    check_no_world_was_lost,
)
from sshwarma.admin.owners_in_file import count_owners, was_logged_in_to
from sshwarma.admin.restorable import find_unreadable_data
from sshwarma.admin.world_place import UnreadableWorldError, find_place
from sshwarma.common.files import is_on_read_only_disk
from sshwarma.common.read_only_database import opened_read_only
from sshwarma.common.units import MIB
from sshwarma.common.user_names import name_user
from sshwarma.settings import ENVIRONMENT_PREFIX, Settings, find_settings_file
from sshwarma.world.interrupted_change import is_to_be_undone
from sshwarma.world.migrate import describe_way_back, known_revisions, newest_revision
from sshwarma.world.move_mark import MovedWorldError, check_not_moved
from sshwarma.world.schema_check import (
    ForeignSchemaError,
    check_newest_objects,
    read_checked_revision,
)

NETWORK_SECTIONS: Final = frozenset({"ssh", "http", "registration"})

SECTIONS: Final = dict.fromkeys(NETWORK_SECTIONS, "ports and addresses") | {
    "backup": "backups", "models": "models", "mcp": "MCP servers",
}  # fmt: skip
"""Sections of the settings that checks need, and what these check."""

MIN_FREE_BYTES = 200 * MIB
"""Bytes of free disk below which the check fails."""


def run_checks(
    settings: Settings,
    config: Path | None = None,
    *,
    problems: Sequence[str] = (),
    left_out: Collection[str] = (),
) -> list[CheckResult]:
    """Run every check without changing anything.

    Args:
        settings: the settings, with defaults in place of sections that are left out.
        config: the settings file, if it is not the default one.
        problems: what is wrong with the settings.
        left_out: sections that are not valid; what needs them is not checked.
    """
    file = config or find_settings_file()
    checks = report_problems(problems) or [_check_config(file, os.environ)]
    source, environ = ask_for_source(settings.data_dir), dict(os.environ)
    if source is not None:
        environ = source.add_variables(environ)
        checks += filter(None, [source.check_file(file)])
    if skipped := sorted({SECTIONS[name] for name in left_out if name in SECTIONS}):
        detail = f"not checked, because their settings are not valid: {', '.join(skipped)}"
        checks.append(warn("settings", detail, "correct the settings, then check again"))
    checks += _check_installation(settings, has_file=file is not None, left_out=left_out)
    if "models" not in left_out:
        checks += check_world_models(settings, environ, is_asked=source is not None)
    if "mcp" not in left_out:
        checks += check_mcp_servers(settings, environ)
    return checks


def report_problems(problems: Sequence[str]) -> list[CheckResult]:
    """Return a result for each setting that is not valid."""
    return [CheckResult("settings", False, text) for text in problems]


def _check_installation(
    settings: Settings, *, has_file: bool, left_out: Collection[str]
) -> Iterator[CheckResult]:
    """Check the data directory and the server, unless they are another user's."""
    try:
        data_dir_owner.check_data_dir_owner(settings.data_dir)
    except data_dir_owner.ForeignDataDirError as error:
        remedy = "run doctor as the user of the server" if error.is_foreign else ""
        remedy = remedy or f"{error.remedy[0].lower()}{error.remedy[1:]}".removesuffix(".")
        detail = str(error) if error.is_foreign else error.finding
        yield CheckResult("user" if error.is_foreign else "data directory", False, detail, remedy)
        return
    user = name_user(os.geteuid())
    if settings.data_dir.exists():
        yield CheckResult("user", True, f"{user} owns the data directory")
    is_read_only = settings.data_dir.is_dir() and is_on_read_only_disk(settings.data_dir)
    if is_read_only:
        yield _report_read_only_disk(settings.data_dir)
    elif (moved := _find_moved_server(settings)) is not None:
        yield moved
    else:
        yield from _check_data_dir(settings)
        if settings.database:
            yield from _check_postgres(settings)
        elif (elsewhere := _find_moved_world(settings)) is not None:
            yield elsewhere
        else:
            yield from _check_database(settings)
            yield from check_write_lock(settings.database_file)
        yield from _check_host_key(settings)
        if "backup" not in left_out:
            yield from check_made_backups(settings)
    if not NETWORK_SECTIONS & set(left_out):
        yield from check_network(settings, has_file=has_file)
    if not is_read_only:
        yield check_sandbox(settings.data_dir)
        yield from _check_owners(settings)


def _find_moved_server(settings: Settings) -> CheckResult | None:
    """Return what is wrong where the directory was moved under a server."""
    try:
        if not settings.database_file.exists():
            check_no_server_was_moved(settings.data_dir)
    except MovedServerError as error:
        return CheckResult("data directory", False, error.finding, error.remedy)
    return None


def _report_read_only_disk(data_dir: Path) -> CheckResult:
    """Say that nothing was checked: SQLite cannot always read a database there."""
    return CheckResult(
        "data directory",
        False,
        f"the file system of {data_dir} is read-only, and the world was not checked",
        "mount it writable: the kernel's log (dmesg) says if a fault of the disk made it read-only;"
        " in a service, name it in ReadWritePaths= of the unit",
    )


def _check_config(path: Path | None, environ: Mapping[str, str]) -> CheckResult:
    """Say where the settings come from, which are valid."""
    source = str(path.absolute()) if path is not None else "defaults, no file"
    variables = sorted(name for name in environ if name.upper().startswith(ENVIRONMENT_PREFIX))
    if variables:
        source += f"; overridden by {', '.join(variables)}"
    return CheckResult("settings", True, source)


def _check_data_dir(settings: Settings) -> Iterator[CheckResult]:
    path = settings.data_dir
    try:
        is_there = path.exists()
    except PermissionError:
        is_there = False
    if not is_there:
        yield _check_parent(path)
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    yield CheckResult(
        "data directory",
        not mode & 0o077,
        f"{path}, mode {mode:04o}",
        f"chmod 700 {path}" if mode & 0o077 else "",
    )
    key = path / OPERATOR_KEY_NAME
    if key.exists() and stat.S_IMODE(key.stat().st_mode) & 0o077:
        yield CheckResult("operator key", False, f"others can read {key}", f"chmod 600 {key}")
    free = shutil.disk_usage(path).free
    yield CheckResult(
        "disk",
        free >= MIN_FREE_BYTES,
        f"{free // MIB} MiB free",
        ""
        if free >= MIN_FREE_BYTES
        else f"make room: at least {MIN_FREE_BYTES // MIB} MiB, for a full disk stops all changes",
    )


def _check_parent(path: Path) -> CheckResult:
    """Check that a data directory which does not exist can be created."""
    parent = next(folder for folder in path.absolute().parents if os.access(folder, os.F_OK))
    if os.access(parent, os.W_OK | os.X_OK):
        return CheckResult("data directory", True, f"{path} will be created at the first start")
    return CheckResult(
        "data directory",
        False,
        f"{path} cannot be created: {parent} is not writable",
        "choose another with --data-dir DIR or SSHWARMA_DATA_DIR",
    )


def _check_database_file(path: Path) -> CheckResult | None:
    """Check what is at the path of the database; None if that may be one."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "not a file"
        remedy = "move it away, and restore a backup"
        return CheckResult("database", False, f"{path} is {kind}", remedy)
    if status.st_size == 0:
        remedy = "if a first start was interrupted, delete it; otherwise restore a backup"
        return CheckResult("database", False, f"{path} is empty", remedy)
    return None


def _find_moved_world(settings: Settings) -> CheckResult | None:
    """Return a result if the settings do not name the database of the world."""
    try:
        check_not_moved(settings.database_file)
    except MovedWorldError as error:
        finding, _, remedy = str(error).partition(". ")
        return CheckResult("database", False, finding, remedy)
    return None


def _check_postgres(settings: Settings) -> Iterator[CheckResult]:
    """Check a world on PostgreSQL, and the contents of its files."""
    found = list(check_postgres(settings))
    yield from found
    if all(check.ok for check in found if check.name in ("database", "schema")):
        yield from check_files(settings, "restore a backup into an empty database")


def _check_database(settings: Settings) -> Iterator[CheckResult]:
    path = settings.database_file
    if not path.exists():
        try:
            check_no_server_holds_it(path)
            check_no_world_was_lost(path)
        except LostWorldError as error:
            yield CheckResult("database", False, error.finding, error.remedy)
        else:
            yield _check_new_world(settings)
        return
    if (found := _check_database_file(path)) is not None:
        yield found
        return
    try:
        with opened_read_only(path) as database:
            verdict = str(database.execute("PRAGMA integrity_check(1)").fetchone()[0])
            schema = read_checked_revision(database)
            if schema == newest_revision() and verdict == "ok":
                check_newest_objects(database)
                verdict = find_unreadable_data(path) or "ok"
    except sqlite3.OperationalError as error:  # a full disk, no permission: it may be sound
        if is_to_be_undone(error):
            yield _report_interrupted_change(settings)
            return
        remedy = "free disk space, or see to its disk, its owner and its mode; then check again"
        if "locked" in str(error):
            remedy = "end the other program that locks it; then check again"
        reason = "the disk is full" if is_disk_full(error, path.parent) else str(error)
        yield CheckResult("database", False, f"{path} cannot be opened: {reason}", remedy)
        return
    except (sqlite3.Error, ForeignSchemaError) as error:
        yield CheckResult("database", False, str(error), _restore_command(settings))
        return
    remedy = "" if verdict == "ok" else _restore_command(settings)
    yield CheckResult("database", verdict == "ok", f"{path}, {verdict}", remedy)
    if schema not in known_revisions():
        remedy = f"install that version, or {describe_way_back(path, schema)}"
        yield CheckResult("schema", False, f"{schema}, from a newer sshwarma", remedy)
        return
    note = (
        ""
        if schema == newest_revision()
        else f", the next start migrates it to {newest_revision()}"
    )
    yield CheckResult("schema", True, f"{schema}{note}")
    if verdict == "ok":
        yield from check_files(settings, _restore_command(settings))


def _report_interrupted_change(settings: Settings) -> CheckResult:
    """Say that nothing was read: a check changes nothing."""
    return warn(
        "database",
        f"{settings.database_file} has a change that was killed, and was not checked",
        "the next start takes the change back; start the server, then check again",
    )


def _restore_command(settings: Settings) -> str:
    directory = shlex.quote(str(settings.data_dir))
    return f"restore a backup: sshwarma restore FILE --force --data-dir {directory}"


def _check_new_world(settings: Settings) -> CheckResult:
    """Say that there is no world, and where backups may be of one that was lost."""
    directory = choose_directory(settings.data_dir, settings.backup)
    if settings.backup.directory is None or not any(directory.glob("world-*.tar.gz")):
        return CheckResult("database", True, "none yet")
    return warn(
        "database",
        f"none yet, and {directory} has backups",
        "if one is of this world, run: sshwarma restore FILE --data-dir"
        f" {shlex.quote(str(settings.data_dir))}",
    )


def _check_host_key(settings: Settings) -> Iterator[CheckResult]:
    from sshwarma.ssh.transport.host_key import (
        HOST_KEY_FILENAME,
        UnusableHostKey,
        load_host_keys,
    )

    path = settings.data_dir / HOST_KEY_FILENAME
    if not path.exists():
        if was_logged_in_to(find_place(settings)):
            yield warn(
                "host key",
                f"{path} is missing: the next start makes another, and clients will warn of it",
                "put the key of this world back, if there is a copy",
            )
        else:
            yield CheckResult("host key", True, "will be created at the first start")
        return
    try:
        load_host_keys(settings.data_dir)  # also the next one, without which no server starts
    except UnusableHostKey as error:
        remedy = f"{error.remedy[0].lower()}{error.remedy[1:]}".removesuffix(".")
        yield CheckResult("host key", False, error.finding, remedy)
        return
    yield CheckResult("host key", True, f"{path}, mode {stat.S_IMODE(path.stat().st_mode):04o}")


def _check_owners(settings: Settings) -> Iterator[CheckResult]:
    """Check that an owner can log in."""
    place = find_place(settings)
    if isinstance(place, Path) and not place.exists():
        return
    try:
        owners = count_owners(place)
    except UnreadableWorldError:
        return  # the check of the database reports the problem
    yield CheckResult(
        "owners",
        owners > 0,
        f"{owners} with a key",
        ""
        if owners
        else f"sshwarma recover NAME FILE --data-dir {shlex.quote(str(settings.data_dir))}",
    )
