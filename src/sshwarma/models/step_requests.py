"""The request for one step of a turn: the composed context, the tools, and the earlier steps."""

from __future__ import annotations

from collections.abc import Iterable

from sshwarma.models.backend import (
    CompletedCall,
    Message,
    OfferedTool,
    StepRequest,
    ToolCall,
    TurnStep,
)
from sshwarma.tools.names import model_tool_name
from sshwarma.world.caller import Caller
from sshwarma.world.loadout import LoadoutItem
from sshwarma.world.row import Row
from sshwarma.wrap.compose import ModelContext
from sshwarma.wrap.layers import ContextMessage


class StepRequestBuilder:
    """Builds the requests of one turn, which answers `question`."""

    def __init__(self, question: Row) -> None:
        self._question = question
        self._tool_order: dict[str, int] = {}  # tool ids in the order of their first offer

    async def build(
        self,
        caller: Caller,
        context: ModelContext,
        steps: tuple[TurnStep, ...],
        *,
        is_last: bool = False,
    ) -> StepRequest:
        """Return the request of the next step, with the tools that the model has now."""
        room = await caller.room()
        load = await caller.world.loadout(room.id, caller.agent.id)
        offers = tuple(
            OfferedTool(
                model_tool_name(item.thing.label),
                item.thing.label,
                item.thing.description,
                item.thing.metadata.get("input_schema", {"type": "object"}),
            )
            for item in self._order_tools(load.usable)
        )
        return StepRequest(
            room=room.name,
            asker=caller.world.agents.name_of(self._question.author_id),
            text=self._question.content,
            tools=offers,
            steps=steps,
            system=context.system,
            conversation=tuple(
                _to_message(line, ends_log=number == context.stable_messages)
                for number, line in enumerate(context.messages, 1)
            ),
            is_last=is_last,
        )

    def _order_tools(self, tools: Iterable[LoadoutItem]) -> list[LoadoutItem]:
        """Sort tools by name, with tools loaded during the turn last.

        Each request then begins like the one before it, for the provider's prompt cache.
        """
        by_name = sorted(tools, key=lambda item: item.thing.label)
        for item in by_name:
            self._tool_order.setdefault(item.thing.id, len(self._tool_order))
        return sorted(by_name, key=lambda item: self._tool_order[item.thing.id])


def _to_message(line: ContextMessage, *, ends_log: bool) -> Message:
    return Message(
        line.role,
        line.text,
        tuple(
            CompletedCall(ToolCall(call.id, call.name, call.arguments), call.result, call.is_error)
            for call in line.calls
        ),
        ends_log=ends_log,
    )
