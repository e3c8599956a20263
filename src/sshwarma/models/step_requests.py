"""The request for one step of a turn: composed context, tools, earlier steps."""

from __future__ import annotations

from collections.abc import Iterable

from sshwarma.models.backend import (
    CompletedCall,
    Message,
    StepRequest,
    ToolCall,
    TurnStep,
)
from sshwarma.models.offered_tools import offer_tools
from sshwarma.world.caller import Caller
from sshwarma.world.ids import now_ms
from sshwarma.world.loadout import LoadoutItem
from sshwarma.wrap.compose import ModelContext
from sshwarma.wrap.layers import ContextMessage
from sshwarma.wrap.profiles import FULL_PROFILE, ContextProfile


class StepRequestBuilder:
    """Builds the requests of one turn.

    The turn answers the question `text` of the agent `asker`.
    """

    def __init__(self, asker: str, text: str) -> None:
        self._asker = asker
        self._text = text
        self._tool_order: dict[str, int] = {}  # tool ids in the order of their first offer

    async def build(
        self,
        caller: Caller,
        context: ModelContext,
        steps: tuple[TurnStep, ...],
        *,
        profile: ContextProfile = FULL_PROFILE,
    ) -> StepRequest:
        """Return the request of the next step, with the tools that the model has now."""
        room = await caller.room()
        load = await caller.world.loadout(room.id, caller.agent.id)
        return StepRequest(
            room=room.name,
            asker=self._asker,
            text=self._text,
            tools=offer_tools(
                self._order_tools(load.usable_tools), profile, caller.rights_in(room, now_ms())
            ),
            steps=steps,
            system=context.system,
            conversation=tuple(
                to_message(line, ends_log=number == context.stable_messages)
                for number, line in enumerate(context.messages, 1)
            ),
        )

    def _order_tools(self, tools: Iterable[LoadoutItem]) -> list[LoadoutItem]:
        """Sort tools by name, with tools loaded during the turn last.

        Each request then begins like the one before it, for the provider's prompt cache.
        """
        by_name = sorted(tools, key=lambda item: item.thing.label)
        for item in by_name:
            self._tool_order.setdefault(item.thing.id, len(self._tool_order))
        return sorted(by_name, key=lambda item: self._tool_order[item.thing.id])


def to_message(line: ContextMessage, *, ends_log: bool = False) -> Message:
    """Return a message of a context as one of a request."""
    return Message(
        line.role,
        line.text,
        tuple(
            CompletedCall(ToolCall(call.id, call.name, call.arguments), call.result, call.is_error)
            for call in line.calls
        ),
        ends_log=ends_log,
    )
