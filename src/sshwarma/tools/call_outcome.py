"""The outcome of a tool call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sshwarma.world.attachments import Attachment
from sshwarma.world.calls import CallResultKind

PRIVATE_RESULT: Final = "What this call was given and returned is private."
"""What logs show in place of a private result."""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The outcome of a call that has ended.

    Attributes:
        seconds: that it ran.
        waited: seconds before that in which it waited, for an approval or for its turn.
    """

    tool: str
    ending: CallResultKind
    text: str
    structured: Any
    seconds: float
    seq: int  # of the row that holds the result; 0 if it was not recorded
    attachments: tuple[Attachment, ...] = ()
    nested_calls: int = 0
    render_plan: dict[str, Any] | None = None
    waited: float = 0.0
