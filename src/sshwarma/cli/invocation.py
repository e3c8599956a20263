"""Shared parts of commands: --config, --data-dir, --json, settings and output.

Large modules are imported inside functions, so that `sshwarma version` and `--help` start at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, NoReturn, ParamSpec

import click

from sshwarma.cli.failures import describe_failure, is_reported, print_json_failure
from sshwarma.cli.printed_lines import print_json, print_lines
from sshwarma.cli.second_world import is_default_directory
from sshwarma.common.exit_status import EXIT_OK, EXIT_USAGE

if TYPE_CHECKING:
    from sshwarma.settings import Settings, ValidPart

P = ParamSpec("P")

ROLES: Final = ("owner", "admin", "member", "guest")


@dataclass(frozen=True, slots=True)
class Invocation:
    """One run of a command, with the options that every command takes."""

    config: Path | None
    data_dir: Path | None
    as_json: bool
    words: tuple[str, ...] = ()
    """Those of the command line."""

    def settings(self, **flags: Any) -> Settings:
        """Load the settings; `flags` and --data-dir override environment and file.

        Warnings of the command go to stderr from here on, as the settings say.

        Raises:
            SystemExit: with status 2, if the settings are invalid or cannot be read; the reasons
                are printed.
        """
        from sshwarma.settings import InvalidSettingsError
        from sshwarma.settings.logs import configure_logging

        try:
            loaded = self.read_settings(**flags)
        except InvalidSettingsError as error:
            self._refuse_settings(*error.problems)
        except OSError as error:
            self._refuse_settings(describe_failure(error).removesuffix("."))
        configure_logging(loaded.log.model_copy(update={"level": "warning"}))
        return loaded

    def _refuse_settings(self, *problems: str) -> NoReturn:
        """Print what is wrong with the settings, and end the command."""
        if self.as_json:
            message = f"Invalid settings: {'; '.join(problems)}."
            print_json_failure(self.words, "invalid", message)
        else:
            print_lines(["\n  ".join(["sshwarma: invalid settings:", *problems])], to_stderr=True)
        raise SystemExit(EXIT_USAGE)

    def read_settings(self, **flags: Any) -> Settings:
        """Load the settings; `flags` and --data-dir override environment and file.

        Raises:
            InvalidSettingsError: with all that is wrong.
            OSError: if the file cannot be read.
        """
        from sshwarma.settings import SettingsSource

        return SettingsSource(self.config, self.with_data_dir(flags)).load()

    def valid_settings(self) -> ValidPart:
        """Load the valid part of the settings, with all problems; else as `settings`."""
        from sshwarma.settings import LogSettings, SettingsSource, load_valid_part
        from sshwarma.settings.logs import configure_logging

        part = load_valid_part(SettingsSource(self.config, self.with_data_dir({})))
        log = part.settings.log if part.settings is not None else LogSettings()
        configure_logging(log.model_copy(update={"level": "warning"}))
        return part

    def with_data_dir(self, flags: dict[str, Any]) -> dict[str, Any]:
        """Return values of settings with that of --data-dir, if it was given."""
        return flags if self.data_dir is None else flags | {"data_dir": self.data_dir.absolute()}

    def world_settings(self, settings: Settings | None = None) -> Settings:
        """Load the settings of the world that this command acts on.

        Its directory is that of the settings. If they name none and the default one has no world,
        it is the one whose server is running, if that is this user's.

        Raises:
            NotFound: if there is no such world, with those whose servers are running.
            LostWorldError: if its database is gone; HeldWorldError if a server still has it.
            MovedServerError: if the directory was moved under its server.
            MovedWorldError: if the world is on PostgreSQL, and the settings do not say so.
            SystemExit: as `settings`.
        """
        from sshwarma.admin.data_dir_lock import check_no_server_was_moved
        from sshwarma.admin.data_dir_owner import describe_new_world
        from sshwarma.admin.lost_world import check_no_server_holds_it, check_no_world_was_lost
        from sshwarma.admin.running_worlds import find_running_worlds
        from sshwarma.cli.world_link import find_present_world, with_served_database
        from sshwarma.world.errors import NotFound

        settings = settings or self.settings()
        try:
            if (found := find_present_world(settings)) is not None:
                return found
        except PermissionError:  # the lock reports whose directory it is
            return settings
        check_no_server_holds_it(settings.database_file)
        running = find_running_worlds()
        own = [path for path in running if path.stat().st_uid == os.geteuid()]
        if is_default_directory(settings) and len(running) == len(own) == 1:
            found = settings.model_copy(update={"data_dir": running[0]})
            found.model_fields_set.discard("data_dir")  # nobody has named it: commands say it
            return with_served_database(found)
        check_no_server_was_moved(settings.data_dir)
        check_no_world_was_lost(settings.database_file)
        servers = f"Servers are running with: {', '.join(map(str, running))}."
        if not is_default_directory(settings):  # to give it again would not help
            way = describe_new_world(settings.data_dir).removesuffix(".")
            hint = f"{way}{f'. {servers}' if running else ''}"
        elif running:
            hint = f"{servers} Give --data-dir."
        else:
            hint = "Create one with sshwarma serve or sshwarma init, or give --data-dir."
        if settings.data_dir.is_file():
            is_file = f"{settings.data_dir} is a file."
            raise NotFound(is_file, hint="--data-dir is the directory of a world.")
        raise NotFound(f"The directory {settings.data_dir} does not contain a world.", hint=hint)

    def nearest_settings(self, settings: Settings) -> tuple[Settings, str]:
        """Return settings for the world there is, else as a new one would have them.

        The text says which servers run, if it cannot be clear which of their worlds is meant.
        """
        from sshwarma.admin.data_dir_lock import MovedServerError
        from sshwarma.admin.lost_world import LostWorldError
        from sshwarma.admin.running_worlds import find_running_worlds
        from sshwarma.world.errors import NotFound
        from sshwarma.world.move_mark import MovedWorldError

        try:
            return self.world_settings(settings), ""
        except (LostWorldError, MovedServerError, MovedWorldError):  # which a check finds, too
            return settings, ""
        except NotFound as error:
            return settings, str(error) if find_running_worlds() else ""

    def operate(self, operation: str, **args: Any) -> Any:
        """Run an operation that changes nothing.

        Prints on stderr which world it reads, unless the settings name it.

        Raises:
            WorldError: if the operation is refused, or there is no world.
        """
        settings = self.world_settings()
        result = _run_operation(settings, operation, args)
        self.print_unnamed_world(settings)
        return result

    def ask_server(
        self,
        operation: str,
        *,
        prints_world: bool = True,
        is_change: bool = False,
        **args: Any,
    ) -> Any:
        """Run an operation in the running server only.

        Prints on stderr which world it has: always if it is a change, else unless the settings
        name it or `prints_world` is False.

        Raises:
            Unavailable: if none is running there.
        """
        settings = self.world_settings()
        result = ask_server_of(settings, operation, args)
        if is_change:
            self.print_world(settings)
        elif prints_world:
            self.print_unnamed_world(settings)
        return result

    def change(self, operation: str, **args: Any) -> Any:
        """Run an operation that changes the world; print on stderr which world that is.

        Raises:
            WorldError: as `operate`; then nothing is printed.
        """
        settings = self.world_settings()
        result = _run_operation(settings, operation, args)
        self.print_world(settings)
        return result

    def change_with_or_without_server(
        self,
        operation: str,
        offline: Callable[[Settings], Any],
        describe: Callable[[Any], str],
        **args: Any,
    ) -> Any:
        """Run an operation in the server; without one, a function of the settings.

        Prints on stderr which world it was. `describe` returns the command for the audit from the
        result of the function; the server records its own, and takes `args`.

        Raises:
            WorldError: if it is refused; then nothing is printed.
        """
        settings = self.world_settings()

        def run_and_record() -> Any:
            done = offline(settings)
            self.record(settings, describe(done))
            return done

        result = _run_operation(settings, operation, args, run_and_record)
        self.print_world(settings)
        return result

    def record(self, settings: Settings, action: str) -> None:
        """Record in the audit a command that has run outside of a server.

        If that fails, prints why on stderr: the command itself has succeeded.
        """
        try:
            _run_operation(settings, "record_command", {"action": action})
        except Exception as error:
            if not is_reported(error):
                raise
            reason = f"The audit has no row of this command: {describe_failure(error, self.words)}"
            print_lines([reason], to_stderr=True)

    def print_unnamed_world(self, settings: Settings) -> None:
        """Print on stderr the world that a command reads, unless the settings name it."""
        if is_default_directory(settings):
            self.print_world(settings)

    def print_world(self, settings: Settings) -> None:
        """Print on stderr the world, and the settings file if it was not named."""
        from sshwarma.settings import find_settings_file

        file = find_settings_file() if self.config is None else None
        lines = [f"Settings: {file.absolute()}"] if file is not None else []
        if settings.database:
            lines.append(f"Database: {settings.database}")
        print_lines([f"World: {settings.data_dir}", *lines], to_stderr=True)

    def show(self, result: Any, *lines: str) -> int:
        """Print `result` as JSON if --json was given, else the lines."""
        if self.as_json:
            print_json(result)
        else:
            print_lines(lines)
        return EXIT_OK


def ask_server_of(settings: Settings, operation: str, args: dict[str, Any]) -> Any:
    """Run an operation in the server that runs on a data directory.

    Raises:
        Unavailable: if none is running there, or it cannot be reached.
    """
    import asyncio

    from sshwarma.admin import control_client, data_dir_lock
    from sshwarma.world.errors import Unavailable

    _check_user(settings)
    try:
        return asyncio.run(control_client.send_request(settings.data_dir, operation, args))
    except (FileNotFoundError, ConnectionRefusedError):
        if data_dir_lock.is_served(settings.data_dir):
            lost = data_dir_lock.describe_lost_socket(settings.data_dir)
            raise Unavailable(lost) from None
        raise Unavailable(
            f"No server is running on {settings.data_dir}.",
            hint="Give the --data-dir of one that is.",
        ) from None


def _run_operation(
    settings: Settings,
    operation: str,
    args: dict[str, Any],
    offline: Callable[[], Any] | None = None,
) -> Any:
    """Run an operation in the server; without one run `offline`.

    That is the same operation on the database, unless it is given.
    """
    import asyncio

    from sshwarma.admin import control_client

    _check_user(settings)
    try:
        return asyncio.run(control_client.send_request(settings.data_dir, operation, args))
    except (FileNotFoundError, ConnectionRefusedError):
        if offline is not None:
            return offline()
        return asyncio.run(_operate_offline(settings, operation, args))


def _check_user(settings: Settings) -> None:
    """Refuse another user than that of the data, unless it is root.

    Raises:
        ForeignDataDirError: with the command to run instead.
    """
    from sshwarma.admin.data_dir_owner import check_data_dir_owner

    if os.geteuid() != 0:
        check_data_dir_owner(settings.data_dir)


async def _operate_offline(settings: Settings, operation: str, args: dict[str, Any]) -> Any:
    from sshwarma.admin.operations import run_operation
    from sshwarma.cli.offline import open_offline

    async with open_offline(settings) as world:
        return await run_operation(world, operation, args, settings=settings)


_EMPTY_VALUES: Final = frozenset({"", "--config=", "--data-dir="})


def _refuse_empty(
    context: click.Context, option: click.Parameter, path: Path | None
) -> Path | None:
    """Refuse "", as a variable of a shell that is not set gives it.

    Raises:
        click.BadParameter: if it is that; `.` is the same for pathlib.
    """
    if path == Path() and not _EMPTY_VALUES.isdisjoint(_list_words(context)):
        raise click.BadParameter("must not be empty.", param=option)
    return path


def _list_words(context: click.Context) -> tuple[str, ...]:
    """Return the words of the command line, which `main` gives to its root."""
    words: tuple[str, ...] = context.find_root().obj or ()
    return words


def with_invocation(
    function: Callable[Concatenate[Invocation, P], int],
) -> Callable[..., int]:
    """Add the common options to a command, whose first argument is an Invocation."""

    @click.option(
        "--config",
        type=click.Path(path_type=Path, readable=False),
        callback=_refuse_empty,
        metavar="FILE",
        help="Settings file (default: ./sshwarma.toml, else ~/.config/sshwarma/sshwarma.toml).",
    )
    @click.option(
        "--data-dir",
        type=click.Path(path_type=Path, readable=False),  # whose it is, is said later
        callback=_refuse_empty,
        metavar="DIR",
        help="Directory of the world (default: data_dir of the settings, else"
        " ~/.local/share/sshwarma).",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @wraps(function)
    def run(
        *args: Any,
        config: Path | None,
        data_dir: Path | None,
        as_json: bool,
        **kwargs: Any,
    ) -> int:
        from sshwarma.common.library_search import tolerate_full_disks

        tolerate_full_disks()
        words = _list_words(click.get_current_context())
        return function(Invocation(config, data_dir, as_json, words), *args, **kwargs)

    return run
