"""`sshwarma migrate-to`: move a world to PostgreSQL, or back into its file."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Final

import click
from typing_extensions import override

from sshwarma.cli.invocation import Invocation, with_invocation
from sshwarma.cli.termination import exit_on_signals

if TYPE_CHECKING:
    from sshwarma.admin.move_world import MovedWorld
    from sshwarma.settings import Settings

FILE: Final = "sqlite"
"""What names the file in the data directory as a target."""

MAX_SHOWN_STEP: Final = 70


class Progress:
    """One line on a terminal that says how far a move is."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._has_line = False

    def show(self, step: str, done: int, total: int) -> None:
        """Show a step, and how many of its rows are done."""
        if not self._is_shown:
            return
        text = f"{step}: {done:,} of {total:,} rows" if total else step
        self._write(f"\r\x1b[K{text[:MAX_SHOWN_STEP]}")
        self._has_line = True

    def close(self) -> None:
        """Remove the line."""
        if self._has_line:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that is gone
            os.write(sys.stderr.fileno(), text.encode())


class Target(click.ParamType[str, str]):
    """An address of a database, or `sqlite`."""

    name = "database"

    @override
    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the target; an address with a password is refused and not shown."""
        from sshwarma.settings.addresses import check_database_url

        try:
            return value if value == FILE else check_database_url(value)
        except ValueError as error:
            self.fail(f"it {error}; or {FILE}.", param, ctx)


@click.command(name="migrate-to")
@click.argument("target", type=Target(), metavar="postgresql://USER@HOST/NAME|sqlite")
@with_invocation
def migrate_to(invocation: Invocation, target: str) -> int:
    """Move the world to an empty database on PostgreSQL, or back into its file.

    `sqlite` stands for that file, world.db, and the database that the settings name is left then.
    The server must be stopped. Both copies are compared before the old one is marked as moved;
    until then a move that ends changes nothing. Files of rooms, the host key and the rest of the
    data directory stay where they are. The password is read from PGPASSWORD or a password file.
    """
    from sshwarma.admin.data_dir_owner import check_data_dir_owner

    exit_on_signals()
    settings = invocation.settings()
    check_data_dir_owner(settings.data_dir)
    progress = Progress(is_shown=sys.stderr.isatty() and not invocation.as_json)
    with contextlib.closing(progress):
        moved, after = _move(settings, target, progress)
    if not moved.is_finished_only:
        place = moved.target if target != FILE else FILE
        invocation.record(after, f"migrate-to {place}")
    return invocation.show(moved.describe(), *_describe(moved, settings, target))


def _move(settings: Settings, target: str, progress: Progress) -> tuple[MovedWorld, Settings]:
    """Move a world; return what was done, and the settings of the world from then on.

    Raises:
        NotFound: if there is no world where it should be.
    """
    from sshwarma.admin.move_world import move_to_file, move_to_postgres
    from sshwarma.world.databases import DatabaseUrl
    from sshwarma.world.errors import Conflict, NotFound

    after = settings.model_copy(update={"database": "" if target == FILE else target})
    if target == FILE:
        if not settings.database:
            raise NotFound(
                "The settings name no database on PostgreSQL, so the world is in a file already.",
                hint="To move one back, set database or SSHWARMA_DATABASE to its address.",
            )
        source = DatabaseUrl(settings.database)
        return move_to_file(source, settings.database_file, progress.show), after
    if settings.database and settings.database != target:
        raise Conflict(
            "The world is on PostgreSQL already: the settings name another database.",
            hint="To move it to another server, use sshwarma backup and sshwarma restore.",
        )
    if not settings.database_file.exists():
        if settings.database:
            raise Conflict(f"The world is in {target} already.")
        raise NotFound(
            f"The directory {settings.data_dir} has no file {settings.database_file.name} to move.",
            hint="Give the --data-dir of a world in a file.",
        )
    return move_to_postgres(settings.database_file, DatabaseUrl(target), progress.show), after


def _describe(moved: MovedWorld, settings: Settings, target: str) -> list[str]:
    """Return what was done, and what to do now."""
    if moved.is_finished_only:
        lines = [f"Finished the move from {moved.source} to {moved.target}, which was interrupted."]
    else:
        rate = round(moved.rows / moved.seconds) if moved.seconds else 0
        lines = [
            f"Moved {moved.rows:,} rows of {len(moved.tables)} tables from {moved.source} to"
            f" {moved.target} in {moved.seconds:.1f} s: {rate:,} rows a second. Both are equal."
        ]
    if moved.replaced_nul:
        lines.append(f"{moved.replaced_nul:,} values had a NUL, which is \N{SYMBOL FOR NULL} now.")
    if moved.changed_json:
        lines.append(
            f"{moved.changed_json:,} values of metadata were no JSON for PostgreSQL. They are kept:"
            " numbers that are not finite as null, other texts whole in a JSON text."
        )
    if moved.kept is not None:
        lines.append(f"The older file is kept: {moved.kept}")
    if target == FILE:
        return [*lines, "Remove database from the settings, then start the server."]
    return [
        *lines,
        f'Write database = "{moved.target}" into the settings, then start the server.'
        if settings.database != target
        else "The settings name the database already: start the server.",
        f"Files of rooms, the host key and all else stay in {settings.data_dir}. The older"
        f" {settings.database_file.name} stays, too: delete it when PostgreSQL has proved itself.",
    ]
