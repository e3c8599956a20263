"""Progress of a line that takes long, above the prompt while it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Self

from sshwarma.terminal.terminal import Terminal
from sshwarma.terminal.text import block, line
from sshwarma.world.caller import Caller

_KEY: Final = "line"
"""The key of the live block; those of turns and calls are ids."""


class LineProgress:
    """Shows what a line reports of itself, until its block ends."""

    def __init__(self, terminal: Terminal) -> None:
        """Show it in a terminal."""
        self._terminal = terminal

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._terminal.set_live_block(_KEY, None)

    def for_caller(self, caller: Caller) -> Caller:
        """Return a caller whose progress is shown."""
        return replace(caller, on_progress=self._show)

    def _show(self, text: str) -> None:
        self._terminal.set_live_block(_KEY, block(line(("dim", text))))
