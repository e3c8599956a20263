"""Providers of tools: what carries out a call, and the result it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from sshwarma.world.attachments import Attachment
from sshwarma.world.caller import Caller
from sshwarma.world.reader import Hint
from sshwarma.world.things import Thing

PROVIDER_KEY: Final = "runs"
"""The key of a tool's metadata that names its provider; the default is its namespace's id."""


_PRINTED: Final = "\n\nprinted:\n"
"""Between the text of a result and what the tool printed."""


def find_printed(text: str) -> str:
    """Return what a tool printed, from the full text of its result; "" if nothing."""
    _, mark, printed = text.rpartition(_PRINTED)
    return printed if mark else ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A provider's result: text for people and models, and any structured value.

    `printed_lines` are what the tool printed on the way, shown with the text. The text names each
    of the `attachments`. `render_plan` is how a page shows it, and `steps` are what was done for
    it, with times in milliseconds since 1970.
    """

    text: str
    structured: Any = None
    is_error: bool = False
    printed_lines: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    render_plan: dict[str, Any] | None = None
    steps: tuple[tuple[str, int], ...] = ()

    @property
    def full_text(self) -> str:
        """The text, and the printed lines behind it."""
        if not self.printed_lines:
            return self.text
        printed = "\n".join(self.printed_lines)
        return f"{self.text}{_PRINTED}{printed}" if self.text else printed


class ToolProvider(Protocol):
    """Carries out the tools of some namespaces."""

    @property
    def timeout_seconds(self) -> float | None:
        """Timeout of each call in seconds.

        None if the provider raises TimeoutError itself, with a message.
        """

    def why_unavailable(self, tool: Thing) -> str:
        """Return why a tool that is marked unavailable cannot be called now.

        Empty if the provider knows no more than the mark.
        """

    def unavailable_hint(self, tool: Thing) -> Hint:
        """Return what to do about an unavailable tool, or an empty string."""

    async def refresh_tool(self, caller: Caller, tool: Thing) -> bool:
        """Read a tool again before a call is checked; return whether it has changed.

        Raises:
            WorldError: if it cannot be used as it is now.
        """
        return False

    async def run(self, caller: Caller, tool: Thing, arguments: dict[str, Any]) -> ToolResult:
        """Run a tool that the caller may use, with arguments that fit its schema.

        `caller.call_stack` is this call: nested calls for the caller use it.

        Raises:
            WorldError: with a message for the caller; recorded as an error of the call.
        """
