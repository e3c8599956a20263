"""The `sshwarma` command: its subcommands, and the exit status of each failure."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from pathlib import Path
from typing import Final, NoReturn

import click

import sshwarma
from sshwarma.cli import (
    agents,
    audit,
    backup,
    broadcast,
    build,
    config,
    doctor,
    drain,
    host_key,
    import_source,
    info,
    init,
    invite,
    keys,
    migrate_to,
    plugins,
    serve,
    tokens,
    toolset,
    vacuum,
)
from sshwarma.cli.failures import (
    asks_for_json,
    describe_failure,
    is_reported,
    print_json_failure,
)
from sshwarma.cli.printed_lines import print_lines
from sshwarma.cli.streams import LostOutputError, open_closed_streams, write_output
from sshwarma.common.exit_status import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE

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
    migrate_to.migrate_to,
    serve.reload,
    keys.keys,
    keys.recover,
    agents.agents,
    invite.invite,
    tokens.token,
    toolset.toolset,
    plugins.plugins,
    audit.audit,
    info.info,
    backup.backup,
    backup.restore,
    import_source.import_source,
    build.build,
    vacuum.vacuum,
    broadcast.broadcast,
    drain.drain,
    host_key.host_key,
    config.config,
    doctor.doctor,
):
    cli.add_command(_command)


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    Returns:
        The exit status: 0 done, 1 refused or failed, 2 wrong usage, invalid input or settings.
    """
    words = sys.argv[1:] if argv is None else argv
    try:
        result: int | None = cli.main(
            words, prog_name="sshwarma", standalone_mode=False, obj=tuple(words)
        )
        write_output()
    except click.ClickException as error:
        with contextlib.suppress(OSError):  # then the status alone says it
            _print_wrong_usage(error, words)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except Exception as error:
        if not is_reported(error):
            raise
        with contextlib.suppress(OSError):  # then the status alone says it
            _print_failure(error, words)
        return _choose_status(error)
    return EXIT_OK if result is None else result


def _choose_status(error: Exception) -> int:
    """Return the exit status of a failure: invalid input is wrong usage, as over ssh."""
    from sshwarma.world.errors import Invalid

    return EXIT_USAGE if isinstance(error, Invalid) else EXIT_FAILED


def _print_failure(error: Exception, words: list[str]) -> None:
    """Print why a command failed, as JSON if that was asked for.

    Lost output is not: its disk or its pipe takes nothing.
    """
    if not asks_for_json(words) or isinstance(error, LostOutputError):
        print_lines([f"sshwarma: {describe_failure(error, words)}"], to_stderr=True)
        return
    from sshwarma.world.errors import WorldError
    from sshwarma.world.reader import PERSON

    if isinstance(error, WorldError):
        print_json_failure(words, error.code, error.message, error.hint_for(PERSON))
    else:
        print_json_failure(words, "failed", describe_failure(error, words))


def _print_wrong_usage(error: click.ClickException, words: list[str]) -> None:
    """Print what is wrong with the words of a command, as JSON if that was asked for."""
    if not asks_for_json(words):
        error.show()
        return
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f"Try {context.command_path} --help." if context is not None else ""
    print_json_failure(words, "invalid", error.format_message(), hint)


def _keep_open_files() -> None:
    """Keep files that were open at the start from the programs that this one starts.

    What a shell, a script or a service manager has left open would be open in each sandbox and
    each MCP server on systems where uvloop starts programs, which closes nothing.
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
