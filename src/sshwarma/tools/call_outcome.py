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
        changes: what it changed of the files, in words, unless the text says it; "" if nothing.
        is_private: whether no log shows what it was given and what it returned.
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
    changes: str = ""
    is_private: bool = False


def add_changes(text: str, changes: object) -> str:
    """Return the text of a result for a model, with what changed of the files.

    `changes` is that of an outcome, or of the metadata of its row.
    """
    if not changes:
        return text
    return f"{text}\nIt {changes}." if text else f"It {changes}."
