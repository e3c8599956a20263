"""Why a turn has no answer, or only a part of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

TURN_END_KEY: Final = "turn_end"
"""Key of a notice's metadata that holds an EndReason for models; True in rows of old versions."""


EndCause: TypeAlias = Literal["limit", "provider", "refused", "internal", "stopped"]
"""What ended a turn: a limit, the provider, the rules of the world, a fault here, or somebody."""


@dataclass(frozen=True, slots=True)
class EndReason:
    """Why a turn has no answer, or only a part of one; it follows the model's name.

    Attributes:
        text: The reason for people.
        summary: The reason for models, without addresses, words of servers, or advice; empty if
            it is the same.
        cause: What ended it, for the metrics.
    """

    text: str
    summary: str = ""
    cause: EndCause = "limit"

    @property
    def status(self) -> Literal["cancelled", "failed"]:
        """Return the status of the turn that ended so."""
        return "cancelled" if self.cause == "stopped" else "failed"

    @property
    def model_text(self) -> str:
        """Return the reason that models read."""
        return self.summary or self.text


SERVER_STOPPED: Final = EndReason("was cut off when the server stopped", cause="stopped")
