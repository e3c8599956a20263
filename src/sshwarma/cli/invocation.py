"""Shared parts of all commands: the options --config, --data-dir and --json, settings, output.

Large modules are imported inside functions, so that `sshwarma version` and `--help` start at once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec

import click

if TYPE_CHECKING:
    from sshwarma.settings import Settings

P = ParamSpec("P")

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2

ROLES: Final = ("owner", "admin", "member", "guest")


@dataclass(frozen=True, slots=True)
class Invocation:
    """One run of a command, with the options that every command takes."""

    config: Path | None
    data_dir: Path | None
    as_json: bool

    def settings(self, **flags: Any) -> Settings:
        """Load the settings: `flags` and --data-dir win over the environment and the file.

        Raises:
            SystemExit: with status 2 and the reasons on stderr if the settings are invalid.
        """
        from pydantic import ValidationError

        from sshwarma.settings import InvalidSettingsError, load_settings

        if self.data_dir is not None:
            flags["data_dir"] = self.data_dir.absolute()
        try:
            return load_settings(self.config, **flags)
        except ValidationError as error:
            lines = [
                f"  {'.'.join(map(str, found['loc']))}: {found['msg']}"
                for found in error.errors(include_url=False)
            ]
        except InvalidSettingsError as error:
            lines = [f"  {error}"]
        print("sshwarma: invalid settings:", *lines, sep="\n", file=sys.stderr)
        raise SystemExit(EXIT_USAGE)

    def operate(self, operation: str, **args: Any) -> Any:
        """Run an operation of `admin.operations`: in the running server, else on the database."""
        import asyncio

        from sshwarma.admin import control_socket

        settings = self.settings()
        try:
            return asyncio.run(control_socket.send_request(settings.data_dir, operation, args))
        except (FileNotFoundError, ConnectionRefusedError):
            return asyncio.run(_operate_offline(settings, operation, args))

    def show(self, result: Any, *lines: str) -> int:
        """Print `result` as JSON if --json was given, else the lines."""
        if self.as_json:
            print(json.dumps(result, indent=2))
        else:
            for text in lines:
                print(text)
        return EXIT_OK


async def _operate_offline(settings: Settings, operation: str, args: dict[str, Any]) -> Any:
    from sshwarma.admin import control_socket
    from sshwarma.admin.operations import run_operation
    from sshwarma.app import open_world
    from sshwarma.settings.logs import configure_logging

    configure_logging(settings.log.model_copy(update={"level": "warning"}))
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with control_socket.lock_data_dir(settings.data_dir):
        world = await open_world(settings)
        try:
            return await run_operation(world, operation, args)
        finally:
            await world.close()


def with_invocation(
    function: Callable[Concatenate[Invocation, P], int],
) -> Callable[..., int]:
    """Give a command the common options, and an Invocation of them as its first argument."""

    @click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Settings file (default: ./sshwarma.toml, else ~/.config/sshwarma/sshwarma.toml).",
    )
    @click.option(
        "--data-dir", type=click.Path(path_type=Path), metavar="DIR", help="Data directory."
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
