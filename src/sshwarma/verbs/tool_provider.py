"""The provider of verbs as tools: runs `sshwarma:look` for any caller.

Callers are models, people and programs.
"""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from sshwarma.common.limits import CALL_TIMEOUT_SECONDS
from sshwarma.tools.provider import ToolProvider, ToolResult
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.registry import every_verb
from sshwarma.verbs.views import render_in_thread
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound
from sshwarma.world.reader import Hint
from sshwarma.world.things import Thing


class VerbToolProvider(ToolProvider):
    """The tool provider of the verbs that are tools."""

    timeout_seconds = CALL_TIMEOUT_SECONDS

    def __init__(self) -> None:
        self._names = {
            spec.id: verb.name for verb in every_verb() if (spec := verb.tool_spec) is not None
        }

    @override
    def why_unavailable(self, tool: Thing) -> str:
        return ""  # a verb is always available

    @override
    def unavailable_hint(self, tool: Thing) -> Hint:
        return ""

    @override
    async def run(self, caller: Caller, tool: Thing, arguments: dict[str, Any]) -> ToolResult:
        name = self._names.get(tool.id)
        if name is None:
            raise NotFound(f"{tool.label} belongs to another version of this program.")
        result = await invoke(caller, name, arguments)
        return ToolResult(*await render_in_thread(caller.reader, result))
