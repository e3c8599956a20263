"""The `sshwarma` command: its subcommands, and the exit status of each failure."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import Final, NoReturn

import click

import sshwarma
from sshwarma.cli import agents, audit, backup, config, doctor, init, keys, serve, tokens
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
    keys.keys,
    keys.recover,
    agents.agents,
    agents.invite,
    tokens.token,
    audit.audit,
    backup.backup,
    backup.restore,
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
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except Exception as error:
        if not isinstance(error, _reported_errors()):
            raise
        print(f"sshwarma: {_describe_failure(error)}", file=sys.stderr)
        return EXIT_FAILED
    return EXIT_OK if result is None else result


def program() -> NoReturn:
    """Run the command, then end the process without the end of the interpreter.

    Everything has been closed by then. What is left are threads and destructors of native
    libraries, such as that of the sentence model, some of which wait for each other.
    """
    os.umask(PRIVATE)
    status = main()
    with contextlib.suppress(OSError):  # the reader of a pipe is gone
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _describe_failure(error: Exception) -> str:
    """Return the message of an error, without the number of a system error."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"The disk is full{f': {error.filename}' if error.filename else ''}."
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    match error:
        case FileNotFoundError():
            return f"{error.filename} not found."
        case FileExistsError():
            return f"{error.filename} already exists. Choose another."
        case PermissionError():
            return f"Permission denied: {error.filename}."
        case IsADirectoryError():
            return f"{error.filename} is a directory."
        case _:
            return f"{error.filename}: {error.strerror}."


def _reported_errors() -> tuple[type[Exception], ...]:
    """Exceptions whose message is for the operator.

    Any other is a bug and keeps its traceback. Imported only after a failure: a command imports the
    modules it needs and no others.
    """
    from sshwarma.admin.data_dir_lock import DataDirInUseError
    from sshwarma.admin.data_dir_owner import ForeignDataDirError
    from sshwarma.admin.restore import InvalidBackupError
    from sshwarma.ssh.transport.public_key import UnusableKey
    from sshwarma.world.errors import WorldError
    from sshwarma.world.migrate import SchemaError

    return (
        WorldError, DataDirInUseError, ForeignDataDirError, InvalidBackupError, SchemaError,
        UnusableKey, OSError,
    )  # fmt: skip
