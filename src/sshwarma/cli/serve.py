"""`sshwarma serve`: run the server until SIGTERM or SIGINT."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from typing_extensions import override

from sshwarma.cli.invocation import Invocation, with_invocation
from sshwarma.common.environment import PIN_VARIABLE
from sshwarma.common.exit_status import EXIT_FAILED


class ServeCommand(click.Command):
    """A command whose wrong usage is a line of the log, if that is in JSON."""

    @override
    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        given = list(args)  # click takes them out of the list
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            from sshwarma.settings import asks_for_json_log

            if not asks_for_json_log(_find_config(given)):
                raise
            from sshwarma.cli.server_process import refuse_usage

            raise SystemExit(refuse_usage(error)) from error


def _find_config(words: list[str]) -> Path | None:
    """Return the file of --config in words that could not be parsed."""
    for word, value in zip(words, [*words[1:], ""], strict=True):
        name, sign, attached = word.partition("=")
        if name == "--config" and (attached or value):
            return Path(attached if sign else value)
    return None


@click.command(cls=ServeCommand)
@click.option("--listen", metavar="HOST:PORT", help="Address of the ssh server.")
@click.option("--http", metavar="HOST:PORT|off", help="Address of /healthz, /metrics, /api, /mcp.")
@click.option(
    "--registration",
    type=click.Choice(["closed", "invite", "open"]),
    help="Who may log in with a new key: nobody, holders of an invite, anyone.",
)
@click.option(
    "--pin-project-memory",
    type=bool,
    metavar="BOOLEAN",
    envvar=PIN_VARIABLE,
    help="Whether all rooms use the project of the directory where the server is started; if not,"
    " each room uses that of its own directory.  [default: True]",
)
@click.option(
    "--load-custom-tools",
    is_flag=True,
    default=None,
    help="Load the plugins in tools/ of the directory where this is started.",
)
@click.option(
    "--plugin-tracebacks",
    is_flag=True,
    default=None,
    help="Show the traceback when a tool of a plugin fails.",
)
@with_invocation
def serve(
    invocation: Invocation,
    listen: str | None,
    http: str | None,
    registration: str | None,
    pin_project_memory: bool | None,
    load_custom_tools: bool | None,
    plugin_tracebacks: bool | None,
) -> int:
    """Run the server."""
    from sshwarma.cli.server_process import refuse_settings, run_server
    from sshwarma.settings import (
        InvalidSettingsError,
        SettingsSource,
        asks_for_json_log,
    )

    flags: dict[str, Any] = {}
    for section, key, value in (
        ("ssh", "listen", listen),
        ("http", "listen", http),
        ("registration", "mode", registration),
        ("memory", "pin_project", pin_project_memory),
        ("plugins", "load", load_custom_tools),
        ("plugins", "show_tracebacks", plugin_tracebacks),
    ):
        if value is not None:
            flags.setdefault(section, {})[key] = value
    source = SettingsSource(invocation.config, invocation.with_data_dir(flags))
    if not asks_for_json_log(invocation.config):
        settings = invocation.settings(**flags)
    else:
        try:
            settings = source.load()
        except (InvalidSettingsError, OSError) as error:
            return refuse_settings(error)
    # Programs that the server starts see what is in force, whatever set it.
    os.environ[PIN_VARIABLE] = "1" if settings.memory.pin_project else "0"
    return run_server(settings, source, as_json=invocation.as_json)


@click.command()
@with_invocation
def reload(invocation: Invocation) -> int:
    """Read the settings of the running server again.

    What can change while it runs is in force at once; the rest is listed, and waits for a restart.
    The exit status is 1 if a model or an MCP server was skipped, or if something cannot work as it
    is set, and 2 if the settings are not valid.
    """
    named: dict[str, Any] = {}
    if invocation.config is not None:
        named["file"] = os.path.realpath(invocation.config)  # of a loop of links, too
    report = invocation.ask_server("reload", is_change=True, **named)
    skipped, changed = report["problems"], report["changed"]
    lines = ["Reloaded." if changed or skipped else "Reloaded; nothing changed."]
    lines += [f"  {setting}" for setting in report["changed"]]
    for heading, key in (
        ("These changed, and need a restart:", "needs_restart"),
        ("These were skipped, and are not in force:", "problems"),
        ("These cannot work:", "broken"),
        ("These may not work:", "doubtful"),
    ):
        if report.get(key):  # an older server has no `doubtful`
            lines += [heading, *(f"  {text}" for text in report[key])]
    if report["unrecorded"]:
        lines.append(f"The audit has no row of this reload: {report['unrecorded']}")
    status = invocation.show(report, *lines)
    return EXIT_FAILED if skipped or report["broken"] else status
