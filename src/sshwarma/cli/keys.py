"""`sshwarma keys`: the ssh keys that may log in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from typing_extensions import override

from sshwarma.cli.file_argument import FileArgument, check_ends
from sshwarma.cli.invocation import ROLES, Invocation, with_invocation
from sshwarma.cli.printed_lines import align_columns
from sshwarma.cli.times import draw_life, draw_time
from sshwarma.common.limits import MAX_TOKEN_DAYS


class _Lifetime(click.ParamType[float | str]):
    """A number of days, or the word `never`."""

    name = "NUMBER|never"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        days = click.FloatRange(0, MAX_TOKEN_DAYS, min_open=True)
        return value if value == "never" else float(days.convert(value, param, ctx))


@click.group()
def keys() -> None:
    """Manage the ssh keys that may log in."""


@keys.command()
@click.argument("name")
@click.argument("file", type=FileArgument(readable=False))
@click.option(
    "--role", type=click.Choice(ROLES), help="Role of the agent (default for a new agent: member)."
)
@click.option(
    "--days",
    type=_Lifetime(),
    help="Lifetime in days, or never (default: new keys never expire, others stay as they are).",
)
@with_invocation
def add(
    invocation: Invocation, name: str, file: str, role: str | None, days: float | str | None
) -> int:
    """Add the public keys of agent NAME.

    The agent is created if it does not exist. FILE is a public key file such as
    ~/.ssh/id_ed25519.pub, an authorized_keys file without options, or - for standard input. If it
    has several keys, all are added or none. Keys that the agent has already stay, and get the
    lifetime that --days gives.
    """
    text = sys.stdin.read() if file == "-" else _read_text(file)
    added = invocation.change("keys_add", name=name, public_key=text, role=role, days=days)
    who = f"{added['agent']} ({added['role']})"
    return invocation.show(added, *(_draw_addition(who, key) for key in added["keys"]))


def _draw_addition(who: str, key: dict[str, Any]) -> str:
    until = f" until {draw_time(key['expires_at'])}" if key["expires_at"] else ""
    if key["done"] == "expiry changed" and not until:
        until = ", which no longer expires"
    word = "may still" if key["done"] == "unchanged" else "may"
    already = "; the key was added before" if key["done"] != "added" else ""
    return f"{who} {word} log in with {key['fingerprint']}{until}{already}"


def _read_text(file: str) -> str:
    """Return the text of a file; one that is not text is refused as a key later."""
    check_ends(Path(file))
    return Path(file).read_text(encoding="utf-8", errors="replace")


@keys.command("list")
@click.argument("name", required=False)
@with_invocation
def list_keys(invocation: Invocation, name: str | None) -> int:
    """List all keys, or those of agent NAME.

    Times are in UTC; the last use is that of an hour ago at most.
    """
    records = invocation.operate("keys_list", name=name)
    rows = ((key["agent"], key["fingerprint"], *draw_life(key), key["comment"]) for key in records)
    return invocation.show(records, *align_columns(rows))


@keys.command()
@click.argument("name")
@click.argument("fingerprint")
@with_invocation
def remove(invocation: Invocation, name: str, fingerprint: str) -> int:
    """Remove a key of agent NAME and end the connections made with it.

    FINGERPRINT is SHA256:... or the start of it, of at least 8 characters.
    """
    key = invocation.change("keys_remove", name=name, fingerprint=fingerprint)
    return invocation.show(key, f"Removed key {key['fingerprint']} of {key['agent']}.")


@click.command()
@click.argument("name")
@click.argument("file", type=FileArgument(readable=False))
@with_invocation
def recover(invocation: Invocation, name: str, file: str) -> int:
    """Make NAME an owner who can log in with a public key.

    For a world that nobody can administer any more: NAME is created, enabled and made owner as
    needed, and the key in FILE is added. FILE is a public key file, or - for standard input.
    """
    text = sys.stdin.read() if file == "-" else _read_text(file)
    record = invocation.change("recover", name=name, public_key=text)
    done = ", ".join(record["done"]) or "nothing to change"
    return invocation.show(
        record, f"{name} is an owner and may log in with {record['fingerprint']}: {done}"
    )
