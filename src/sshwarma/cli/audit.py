"""`sshwarma audit`: who did what, and who logged in."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Sequence
from typing import Any, Final

import click

from sshwarma.cli.invocation import Invocation, with_invocation
from sshwarma.cli.printed_lines import align_columns, print_lines
from sshwarma.common.exit_status import EXIT_OK
from sshwarma.common.limits import DEFAULT_AUDIT_ROWS, MAX_AUDIT_ROWS
from sshwarma.common.times import parse_since

FOLLOW_SECONDS: Final = 1.0
"""Seconds between two looks for new rows."""


class Since(click.ParamType[int, str | int]):
    """A time: so long ago (`30m`, `2h`, `7d`), or a date or time in ISO form, in UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return milliseconds since 1970."""
        if isinstance(value, int):
            return value
        try:
            return parse_since(value, int(time.time() * 1000))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.option("--agent", metavar="NAME", help="Only what this agent did, also if it was removed.")
@click.option(
    "--about",
    metavar="WORD",
    help="Only rows whose request has this word: what was done to the agent, or room, of a name,"
    " of everybody who had it, also while the agent had another name.",
)
@click.option(
    "--verb", metavar="VERB", help='Only rows of this verb, such as keys or "login failed".'
)
@click.option(
    "--since", type=Since(), metavar="TIME", help="Only rows since 2h, 7d or a date (UTC)."
)
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_AUDIT_ROWS),
    help="Maximum number of rows, the newest"
    f" (default: {DEFAULT_AUDIT_ROWS}, with --since {MAX_AUDIT_ROWS}).",
)
@click.option("--follow", is_flag=True, help="Go on and print new rows of the running server.")
@with_invocation
def audit(
    invocation: Invocation,
    agent: str | None,
    about: str | None,
    verb: str | None,
    since: int | None,
    limit: int | None,
    follow: bool,
) -> int:
    """Show who changed what, who logged in, and which logins failed.

    With --json each row is one JSON object on a line of its own.
    """
    wanted: dict[str, Any] = {"name": agent, "verb": verb, "since": since}
    if about:
        wanted["about"] = about  # a server of an older version refuses it
    limit = limit or (DEFAULT_AUDIT_ROWS if since is None else MAX_AUDIT_ROWS)
    rows = invocation.operate("audit_list", **wanted, limit=limit)
    _print_rows(rows, as_json=invocation.as_json)
    if len(rows) == limit:
        print_lines([_describe_limit(limit)], to_stderr=True)
    after = rows[-1]["n"] if rows else 0
    gc.enable()  # the command has turned it off
    while follow:
        time.sleep(FOLLOW_SECONDS)
        new = invocation.ask_server(
            "audit_list", prints_world=False, **wanted, after=after, limit=MAX_AUDIT_ROWS
        )
        _print_rows(new, as_json=invocation.as_json)
        after = new[-1]["n"] if new else after
    return EXIT_OK


def _describe_limit(limit: int) -> str:
    """Return what to do where older rows may be left out."""
    shown = "The newest row is shown" if limit == 1 else f"The newest {limit} rows are shown"
    if limit < MAX_AUDIT_ROWS:
        return f"{shown}; there may be older ones. --limit shows more."
    return f"{shown}; there may be older ones. To find them, choose with --agent and --verb."


def _print_rows(rows: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_lines(json.dumps(row) for row in rows)
    elif rows:
        from sshwarma.world.audit_row import AuditRow

        print_lines(align_columns([AuditRow(**row).list_cells() for row in rows]))
