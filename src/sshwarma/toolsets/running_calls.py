"""Calls of toolsets that run, and end when their toolset is uninstalled."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from sshwarma.world.caller import Caller
from sshwarma.world.open_requests import OpenRequest, wait_for_ends
from sshwarma.world.things import Thing

END_TIMEOUT_SECONDS: Final = 5.0
"""Seconds to wait for calls to end; what they left of the files is stored in them."""


class RunningCalls:
    """The calls that run, by toolset."""

    def __init__(self) -> None:
        self._requests: dict[str, dict[OpenRequest, Thing]] = {}

    @contextlib.contextmanager
    def run(self, caller: Caller, tool: Thing) -> Iterator[None]:
        """Let a call run in this block.

        Raises:
            Conflict: if it is ended.
        """
        begin = caller.world.open_requests.begin
        requests = self._requests.setdefault(tool.parent_id or "", {})
        with begin(caller.agent.id, room_id=caller.room_id) as request:
            requests[request] = tool
            try:
                yield
            finally:
                del requests[request]
                if not requests:
                    self._requests.pop(tool.parent_id or "", None)

    async def end_all(self, caller: Caller, space: Thing) -> list[str]:
        """End the calls of a toolset that is uninstalled; return whose they were."""
        requests = dict(self._requests.get(space.id, {}))
        by = caller.agent.name
        for request, tool in requests.items():
            because = f"{by} uninstalled the toolset {space.label}"
            request.stop(by, f"{tool.label} was ended: {because}.")
        await wait_for_ends(list(requests), END_TIMEOUT_SECONDS)
        find_name = caller.world.agents.name_of
        return sorted(
            f"{tool.label} of {find_name(request.agent_id)}" for request, tool in requests.items()
        )
