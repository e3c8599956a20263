"""The limit of a turn's requests, which is lowered if a context was too long."""

from __future__ import annotations

from typing import Final

import structlog

from sshwarma.models.backend import Backend, BackendError, StepRequest
from sshwarma.models.offered_tools import write_offers
from sshwarma.models.request_size import count_request_tokens
from sshwarma.world.turns import Turn
from sshwarma.wrap.tokens import count_answer_tokens, estimate_tokens

log = structlog.get_logger(__name__)

SHORTER_FRACTION: Final = 0.5
"""Fraction of a request that was too long, but for its tools, that the second one has. Nobody says
by how much it was too long, and there is no third."""


class RequestLimit:
    """The limit of the requests of a turn.

    Attributes:
        tokens: maximum tokens of a request; 0 if the backend reads no context.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self._is_lowered = False

    def set_window(self, backend: Backend) -> int:
        """Derive the limit from the context window of a backend; return the window."""
        window = backend.context_tokens
        self.tokens = window - count_answer_tokens(window, backend.output_tokens)
        return window

    def check_tools(self, count: int, tokens: int) -> None:
        """Raise unless the tools leave room for a conversation.

        Raises:
            BackendError: if their `tokens` are at least those of a request.
        """
        if tokens >= self.tokens:
            raise BackendError(
                f"its {count} tools have about {tokens} tokens, and its context has room for"
                f" {self.tokens} before the answer; unequip some, or ask an owner to set its"
                " profile to small or its context_tokens higher",
                cause="its tools do not fit its context",
            )

    def check_may_lower(self, error: BackendError) -> None:
        """Raise the error, unless a shorter request may be sent: once in a turn.

        Raises:
            BackendError: if it is about something else, or about the shorter request.
        """
        if not error.is_context_too_long or not self.tokens:
            raise error
        if self._is_lowered:
            raise BackendError(f"{error}, even shortened", is_context_too_long=True) from error

    def lower(self, request: StepRequest, backend: Backend, agent: str, turn: Turn) -> str:
        """Lower the limit below a request; return the notice for the room."""
        size = count_request_tokens(request)
        tools = estimate_tokens(write_offers(request.tools))
        self.tokens = min(self.tokens, tools + int((size - tools) * SHORTER_FRACTION))
        self._is_lowered = True
        log.warning(
            "a context was too long",
            agent=agent,
            model=backend.model,
            room=turn.room_id,
            turn=turn.id,
            tokens=size,
            again_with=self.tokens,
        )
        return (
            "was asked again with a shortened log: the context was too long"
            f" (about {size:,} tokens, now {self.tokens:,})"
        )

    def count_window_tokens(self, output_tokens: int | None) -> int:
        """Return the window that has room for a request of this size and its answer.

        `output_tokens` are the maximum tokens of the answer; None if there is no limit.
        """
        window = self.tokens
        for _ in range(32):  # the share of the answer grows with the window
            window = self.tokens + count_answer_tokens(window, output_tokens)
        return window
