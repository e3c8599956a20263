"""The provider of verbs as tools: runs `sshwarma:look` for any caller.

Callers are models, people and programs.
"""

from __future__ import annotations

import asyncio
from typing import Any

from typing_extensions import override

from sshwarma.common.limits import CALL_TIMEOUT_SECONDS, MAX_SCRIPT_CHANGES_PER_WINDOW
from sshwarma.tools.provider import ToolProvider, ToolResult
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.line_rate import LineRateLimiter, is_read_verb
from sshwarma.verbs.registry import every_verb
from sshwarma.verbs.views import render_in_thread
from sshwarma.world.builtin_containers import BUILTIN_NAMESPACES
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound
from sshwarma.world.reader import Hint
from sshwarma.world.things import Thing


def make_verb_providers() -> dict[str, ToolProvider]:
    """Return the provider of each built-in namespace, by the id of its container."""
    return dict.fromkeys(BUILTIN_NAMESPACES, VerbToolProvider())


class VerbToolProvider(ToolProvider):
    """The tool provider of the verbs that are tools."""

    timeout_seconds = None  # each verb has its own

    def __init__(self) -> None:
        self._changes_of_scripts = LineRateLimiter(
            MAX_SCRIPT_CHANGES_PER_WINDOW, "changes by scripts of one person", "run it again"
        )
        self._verbs = {
            spec.id: verb for verb in every_verb() if (spec := verb.tool_spec) is not None
        }

    @override
    def why_unavailable(self, tool: Thing) -> str:
        return ""  # a verb is always available

    @override
    def unavailable_hint(self, tool: Thing) -> Hint:
        return ""

    @override
    async def run(self, caller: Caller, tool: Thing, arguments: dict[str, Any]) -> ToolResult:
        verb = self._verbs.get(tool.id)
        if verb is None:
            raise NotFound(f"{tool.label} belongs to another version of this program.")
        stack = caller.call_stack
        if stack is not None and stack.is_nested and not is_read_verb(verb):
            self._changes_of_scripts.check(caller.person_id or caller.agent.id)
        limit = asyncio.timeout(None if verb.times_out_itself else CALL_TIMEOUT_SECONDS)
        try:
            async with limit:
                result = await invoke(caller, verb.name, arguments)
        except TimeoutError:
            if not limit.expired():
                raise
            text = f"The call timed out after {CALL_TIMEOUT_SECONDS:.0f} s."
            raise TimeoutError(text) from None
        return ToolResult(*await render_in_thread(caller.reader, result))
