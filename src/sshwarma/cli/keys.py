"""`sshwarma keys`: the ssh keys that may log in."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sshwarma.cli.invocation import ROLES, Invocation, align_columns, with_invocation


@click.group()
def keys() -> None:
    """Manage the ssh keys that may log in."""


@keys.command()
@click.argument("name")
@click.argument("file")
@click.option(
    "--role", type=click.Choice(ROLES), help="Role of the agent (default for a new agent: member)."
)
@with_invocation
def add(invocation: Invocation, name: str, file: str, role: str | None) -> int:
    """Add a public key of agent NAME.

    The agent is created if it does not exist. FILE is a public key file such as
    ~/.ssh/id_ed25519.pub, or - for standard input.
    """
    text = sys.stdin.read() if file == "-" else _read_text(file)
    key = invocation.change("keys_add", name=name, public_key=text, role=role)
    message = f"{key['agent']} ({key['role']}) may log in with {key['fingerprint']}"
    return invocation.show(key, message)


def _read_text(file: str) -> str:
    """Return the text of a file; one that is not text is refused as a key later."""
    return Path(file).read_text(encoding="utf-8", errors="replace")


@keys.command("list")
@click.argument("name", required=False)
@with_invocation
def list_keys(invocation: Invocation, name: str | None) -> int:
    """List all keys, or those of agent NAME."""
    records = invocation.operate("keys_list", name=name)
    rows = ((key["agent"], key["fingerprint"], key["comment"]) for key in records)
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
@click.argument("file")
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
