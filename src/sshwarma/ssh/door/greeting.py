"""The greeting at a login: the message of the day and a welcome."""

from __future__ import annotations

from sshwarma.terminal.text import Block, block, line


def draw_greeting(motd: str, name: str) -> list[Block]:
    """Draw the message of the day, if there is one, and the welcome of an agent."""
    hint = ("dim", "/help shows what you can do.")
    welcome = block(line("Welcome, ", ("self", name), ". ", hint))
    return [block(*motd.split("\n")), welcome] if motd else [welcome]
