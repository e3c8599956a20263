"""`sshwarma invite`: codes with which newcomers register their keys."""

from __future__ import annotations

from typing import Any, Final

import click
from click.core import ParameterSource

from sshwarma.cli.invocation import (
    ROLES,
    Invocation,
    with_invocation,
)
from sshwarma.cli.printed_lines import align_columns, print_lines
from sshwarma.cli.times import draw_time
from sshwarma.common.exit_status import EXIT_OK
from sshwarma.common.limits import DEFAULT_INVITE_HOURS, MAX_INVITE_HOURS

GIVEN: Final = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


@click.group(invoke_without_command=True)
@click.option(
    "--role",
    type=click.Choice(ROLES[1:]),
    default="member",
    show_default=True,
    help="Role of the agent that redeems it.",
)
@click.option(
    "--hours",
    type=click.FloatRange(0, MAX_INVITE_HOURS, min_open=True),
    default=DEFAULT_INVITE_HOURS,
    show_default=True,
    help="Hours until the code expires.",
)
@with_invocation
def invite(invocation: Invocation, role: str, hours: float) -> int:
    """Print a one-time invite code; list and revoke invites.

    The code is on standard output, what to send with it on standard error. Codes work only while
    the server runs with --registration invite.
    """
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        _refuse_options(context, context.invoked_subcommand)
        return EXIT_OK
    new = invocation.change("invite", role=role, hours=hours)
    if not invocation.as_json:
        until = f"For a new {role}, once, until {draw_time(new['expires_at'])} UTC."
        what = f"{until} With an ssh key and a free name, the newcomer types:"
        print_lines([what, f"  {new['command']}"], to_stderr=True)
    return invocation.show(new, new["code"])


def _refuse_options(context: click.Context, action: str) -> None:
    """Refuse options before an action, which would not have them.

    Raises:
        click.UsageError: with the right order.
    """
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) in GIVEN:
            option = parameter.opts[0]
            raise click.UsageError(f"Give {option} after {action}: sshwarma invite {action} ...")


@invite.command("list")
@with_invocation
def list_invites(invocation: Invocation) -> int:
    """List invites: id, role, who made it, when, and its state.

    Times are in UTC. Codes are not stored.
    """
    records = invocation.operate("invite_list")
    rows = (
        (
            record["id"],
            record["role"],
            f"by {_draw_maker(record)}",
            f"made {draw_time(record['created_at'])}",
            _draw_state(record),
        )
        for record in records
    )
    return invocation.show(records, *align_columns(rows))


def _draw_maker(record: dict[str, Any]) -> str:
    """Return who made an invite: an agent, or in parentheses a user of the machine."""
    return record["by"] or f"({record.get('os_user') or 'command line'})"


def _draw_state(record: dict[str, Any]) -> str:
    if record["state"] == "used":
        return f"used by {record['used_by']} {draw_time(record['used_at'])}"
    if record["state"] == "void":
        return "void: its maker may not invite any more"
    word = "until" if record["state"] == "open" else "expired"
    return f"{word} {draw_time(record['expires_at'])}"


@invite.command()
@click.argument("id")
@with_invocation
def revoke(invocation: Invocation, id: str) -> int:
    """Revoke an invite that nobody has used. ID is its id, or the start of it."""
    record = invocation.change("invite_revoke", invite_id=id)
    return invocation.show(record, f"Revoked invite {record['id']} for a new {record['role']}.")
