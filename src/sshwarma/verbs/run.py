"""The verb run: a call of an equipped tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sshwarma.common.limits import MAX_ROW_PART_CHARACTERS
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import UsableToolName
from sshwarma.verbs.hook_views import HookTest
from sshwarma.verbs.registry import verb
from sshwarma.verbs.render_views import draw_rendered_text
from sshwarma.verbs.rendered_file import load_content, read_content
from sshwarma.verbs.result_pages import add_page_problem
from sshwarma.verbs.shell import CommandResult
from sshwarma.verbs.thing_completion import ToolArguments, read_tool_arguments
from sshwarma.verbs.tool_views import ToolTestResult
from sshwarma.verbs.views import format_call_time, format_count, view_for_reader
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.reader import Reader

MAX_SEARCHED_CALLS = 100
"""Number of newest calls that are searched for an attachment."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a tool call.

    The room saw the call and the start of the result; row `seq` of its log contains all of it.
    `attachments`: the number of files in it; `calls`: the number of calls that the tool made;
    `render_plan`: how a page shows it; `seconds`: how long it ran; `waited`: the seconds before
    that in which it waited, for an approval or until other programs had ended;
    `changes`: what it changed of the files, in words, unless `text` says it.
    """

    tool: str
    ok: bool
    text: str
    structured: Any
    seconds: float
    seq: int
    attachments: int = 0
    calls: int = 0
    render_plan: dict[str, Any] | None = None
    waited: float = 0.0
    changes: str = ""


@view_for_reader(RunResult)
def draw_run_result(ran: RunResult, reader: Reader) -> Block:
    """Draw the start of a tool result, and the line that shows the rest."""
    style, mark = ("ok", "✓") if ran.ok else ("error", "✗")
    # The tool decides how long this is; a terminal that cannot take it would be cut off.
    content = read_content(ran.render_plan) if reader.is_person else None
    excess = len(ran.text if content is None else content) - MAX_ROW_PART_CHARACTERS
    hint = ""
    if excess > 0:
        call = reader.name_call("expand", row=ran.seq, start=MAX_ROW_PART_CHARACTERS)
        hint = f"… {excess} more: {call}{', or --json' if reader.is_person else ''}"
    notes = [("dim", f" · {ran.changes}")] if ran.changes else []
    if ran.calls:
        way = reader.hint(": {}", "history show", tools=True)
        notes.append(("dim", f" · {format_count(ran.calls, 'call')} inside{way}"))
    if ran.attachments:
        call = reader.name_call("attachment", row=ran.seq)
        notes += [("dim", " · "), ("verb", call)] if call else []
    text = ran.text[:MAX_ROW_PART_CHARACTERS]
    duration = format_call_time(ran.seconds, ran.waited)
    return block(
        line(
            (style, mark),
            f" {ran.tool} {duration}",
            *notes,
            hang=4,
        ),
        *draw_rendered_text(text, ran.render_plan, reader, ran.structured, ran.seq),
        *([line(("dim", hint))] if hint else ()),
    )


@verb(
    "run",
    section="Inventory",
    needs=Right.TALK,
    tool=False,
    examples=(
        "/run sshwarma:who",
        "/run holler:sample prompt=jazz",
        '/run holler:sample {"bars": 4}',
    ),
)
async def run(
    caller: Caller, name: UsableToolName, arguments: ToolArguments | None = None
) -> RunResult:
    """Call a tool that is equipped for you here.

    The room sees the call and its result, like those of a model.

    Args:
        name: name of the tool, such as holler:sample.
        arguments: NAME=VALUE words, or a JSON object.
    """
    tools = services_of(caller).tools
    tool = (await tools.find(caller, name)).thing
    outcome = await tools.call(caller, name, read_tool_arguments(tool, arguments))
    plan = await add_page_problem(caller, outcome.render_plan, outcome.tool)
    return RunResult(
        tool=outcome.tool,
        ok=outcome.ending == "result",
        text=outcome.text,
        structured=outcome.structured,
        seconds=outcome.seconds,
        seq=outcome.seq,
        attachments=len(outcome.attachments),
        calls=outcome.nested_calls,
        render_plan=await load_content(caller, plan),
        waited=outcome.waited,
        changes=outcome.changes,
    )


def is_failed_run(result: object) -> bool:
    """Return whether a result is that of a failed tool or command.

    Scripts see it in the exit status.
    """
    if isinstance(result, CommandResult):
        return result.is_failed
    if isinstance(result, HookTest):
        return bool(result.error)
    return isinstance(result, RunResult | ToolTestResult) and not result.ok
