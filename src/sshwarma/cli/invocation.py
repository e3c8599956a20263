"""Shared parts of commands: --config, --data-dir, --json, settings and output.

Large modules are imported inside functions, so that `sshwarma version` and `--help` start at once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec

import click

from sshwarma.common.exit_status import EXIT_OK, EXIT_USAGE

if TYPE_CHECKING:
    from sshwarma.settings import Settings

P = ParamSpec("P")

ROLES: Final = ("owner", "admin", "member", "guest")


@dataclass(frozen=True, slots=True)
class Invocation:
    """One run of a command, with the options that every command takes."""

    config: Path | None
    data_dir: Path | None
    as_json: bool

    def settings(self, **flags: Any) -> Settings:
        """Load the settings; `flags` and --data-dir override environment and file.

        Raises:
            SystemExit: with status 2 and the reasons on stderr if the settings are invalid.
        """
        from pydantic import ValidationError

        from sshwarma.settings import (
            InvalidSettingsError,
            describe_invalid_settings,
            load_settings,
        )

        try:
            return load_settings(self.config, **self.with_data_dir(flags))
        except ValidationError as error:
            problems = describe_invalid_settings(error, self.config)
        except InvalidSettingsError as error:
            problems = [str(error)]
        lines = [f"  {problem}" for problem in problems]
        print("sshwarma: invalid settings:", *lines, sep="\n", file=sys.stderr)
        raise SystemExit(EXIT_USAGE)

    def with_data_dir(self, flags: dict[str, Any]) -> dict[str, Any]:
        """Return values of settings with that of --data-dir, if it was given."""
        return flags if self.data_dir is None else flags | {"data_dir": self.data_dir.absolute()}

    def operate(self, operation: str, **args: Any) -> Any:
        """Run an operation of `admin.operations` in the server, else on the database.

        Raises:
            WorldError: if the operation is refused, or there is no world in the data directory.
        """
        import asyncio

        from sshwarma.admin import control_socket

        settings = self.settings()
        try:
            return asyncio.run(control_socket.send_request(settings.data_dir, operation, args))
        except (FileNotFoundError, ConnectionRefusedError):
            return asyncio.run(_operate_offline(settings, operation, args))

    def change(self, operation: str, **args: Any) -> Any:
        """Run an operation that changes the world; print on stderr which world that is.

        Raises:
            WorldError: as `operate`; then nothing is printed.
        """
        result = self.operate(operation, **args)
        print(f"World: {self.settings().data_dir}", file=sys.stderr)
        return result

    def show(self, result: Any, *lines: str) -> int:
        """Print `result` as JSON if --json was given, else the lines."""
        if self.as_json:
            print(json.dumps(result, indent=2))
        else:
            for text in lines:
                print(text)
        return EXIT_OK


def require_world(settings: Settings) -> None:
    """Raise unless there is a world in the data directory.

    Raises:
        WorldError: with the directory.
    """
    from sshwarma.world.errors import NotFound

    if not settings.database.exists():
        raise NotFound(
            f"The directory {settings.data_dir} does not contain a world.",
            hint="Start one with sshwarma serve, or give the --data-dir of another.",
        )


def align_columns(rows: Iterable[Sequence[str]]) -> list[str]:
    """Join the cells of each row, each column as wide as its widest cell."""
    table = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


async def _operate_offline(settings: Settings, operation: str, args: dict[str, Any]) -> Any:
    from sshwarma.admin import data_dir_lock
    from sshwarma.admin.operations import run_operation
    from sshwarma.app import open_world
    from sshwarma.settings.logs import configure_logging

    require_world(settings)
    configure_logging(settings.log.model_copy(update={"level": "warning"}))
    with data_dir_lock.lock_data_dir(settings.data_dir):
        world = await open_world(settings)
        try:
            return await run_operation(world, operation, args, settings=settings)
        finally:
            await world.close()


def with_invocation(
    function: Callable[Concatenate[Invocation, P], int],
) -> Callable[..., int]:
    """Add the common options to a command, whose first argument is an Invocation."""

    @click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Settings file (default: ./sshwarma.toml, else ~/.config/sshwarma/sshwarma.toml).",
    )
    @click.option(
        "--data-dir",
        type=click.Path(path_type=Path),
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
        return function(Invocation(config, data_dir, as_json), *args, **kwargs)

    return run
