"""`sshwarma broadcast`: a message to everyone who is connected."""

from __future__ import annotations

import sys

import click

from sshwarma.cli.invocation import Invocation, with_invocation


@click.command()
@click.argument("text", nargs=-1, required=True)
@with_invocation
def broadcast(invocation: Invocation, text: tuple[str, ...]) -> int:
    """Send TEXT to everyone who is connected.

    TEXT is - for standard input. It is not stored: for those who come later there is the setting
    motd.
    """
    message = sys.stdin.read() if text == ("-",) else " ".join(text)
    sent = invocation.ask_server("broadcast", is_change=True, text=message)
    count = sent["agents"]
    lines = [f"Sent to {count} {'agent' if count == 1 else 'agents'}."]
    if sent.get("unrecorded"):
        lines.append(f"The audit has no row of it: {sent['unrecorded']}")
    return invocation.show(sent, *lines)
