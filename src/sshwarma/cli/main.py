"""The `sshwarma` command: its subcommands, and the exit status of each failure."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
from itertools import takewhile
from pathlib import Path
from typing import Final, NoReturn

import click

import sshwarma
from sshwarma.cli import (
    agents,
    audit,
    backup,
    broadcast,
    config,
    doctor,
    host_key,
    info,
    init,
    invite,
    keys,
    serve,
    tokens,
    toolset,
    vacuum,
)
from sshwarma.cli.failures import STANDARD_STREAM, describe_failure, is_reported
from sshwarma.cli.invocation import print_lines
from sshwarma.cli.streams import LostOutputError, open_closed_streams, write_output
from sshwarma.common.exit_status import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK

PRIVATE: Final = 0o077
"""The umask: other users can read nothing that the program creates."""


@click.group(
    name="sshwarma",
    help=sshwarma.__doc__,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(sshwarma.__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Define the `sshwarma` command line and its subcommands."""


@cli.command()
def version() -> int:
    """Print the version."""
    click.echo(f"sshwarma {sshwarma.__version__}")
    return EXIT_OK


for _command in (
    serve.serve,
    init.init,
    init.migrate,
    serve.reload,
    keys.keys,
    keys.recover,
    agents.agents,
    invite.invite,
    tokens.token,
    toolset.toolset,
    audit.audit,
    info.info,
    backup.backup,
    backup.restore,
    vacuum.vacuum,
    broadcast.broadcast,
    host_key.host_key,
    config.config,
    doctor.doctor,
):
    cli.add_command(_command)


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    Returns:
        The exit status: 0 done, 1 refused or failed, 2 wrong usage or invalid settings.
    """
    try:
        result: int | None = cli.main(argv, prog_name="sshwarma", standalone_mode=False)
        write_output()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except Exception as error:
        if not is_reported(error):
            raise
        with contextlib.suppress(OSError):  # then the status alone says it
            _print_failure(error, sys.argv[1:] if argv is None else argv)
        return EXIT_FAILED
    return EXIT_OK if result is None else result


def _print_failure(error: Exception, words: list[str]) -> None:
    """Print why a command failed, as JSON on standard output if that was asked for.

    A backup that goes there is not followed by something else, and a full disk takes nothing.
    """
    if "--json" not in takewhile(lambda word: word != "--", words) or isinstance(
        error, LostOutputError
    ):
        print_lines([f"sshwarma: {describe_failure(error)}"], to_stderr=True)
        return
    from sshwarma.world.errors import WorldError
    from sshwarma.world.reader import PERSON

    described = {"error": "failed", "message": describe_failure(error), "hint": ""}
    if isinstance(error, WorldError):
        hint = error.hint_for(PERSON)
        described = {"error": error.code, "message": error.message, "hint": hint}
    is_backup = "backup" in words and STANDARD_STREAM in words
    output = sys.stderr if is_backup else sys.stdout
    print(json.dumps(described, indent=2), file=output, flush=True)


def _keep_open_files() -> None:
    """Keep files that were open at the start from the programs that this one starts.

    What a shell, a script or a service manager has left open would be open in each sandbox and
    each MCP server: uvloop closes nothing for them.
    """
    with contextlib.suppress(FileNotFoundError):  # without /dev
        for path in Path("/dev/fd").iterdir():
            with contextlib.suppress(OSError):  # the one that lists them is closed by now
                os.set_inheritable(int(path.name), int(path.name) < 3)


def program() -> NoReturn:
    """Run the command, then end the process without the end of the interpreter.

    No garbage is collected: most commands end before it would matter, and an eighth of their time
    went into it. Those that go on turn it on, `serve` and `audit --follow`.

    Everything has been closed by then. What is left are threads and destructors of native
    libraries, such as that of the sentence model, some of which wait for each other.
    """
    os.umask(PRIVATE)
    open_closed_streams()
    _keep_open_files()
    gc.disable()
    status = main()
    with contextlib.suppress(OSError):  # the reader of a pipe is gone
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)
