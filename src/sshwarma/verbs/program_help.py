"""Help for models, MCP and HTTP clients: tools and arguments, without keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sshwarma.common.near_names import suggest_near_names
from sshwarma.common.shorten import shorten_name
from sshwarma.terminal.text import Block, Line, block, line, text_lines
from sshwarma.verbs.registry import SECTIONS, Verb, VerbGroup, every_verb, find_entry, find_verb
from sshwarma.verbs.views import draw_columns, view, view_for_reader
from sshwarma.world.errors import NotFound
from sshwarma.world.reader import Reader, next_call


@dataclass(frozen=True, slots=True)
class ListedToolHelp:
    """A tool and its summary; `group` is the first word of its verb."""

    name: str
    group: str
    summary: str


@dataclass(frozen=True, slots=True)
class ToolIndex:
    """The tools of one group, or of all groups by section."""

    sections: tuple[tuple[str, tuple[ListedToolHelp, ...]], ...]


@view(ToolIndex)
def draw_tool_index(index: ToolIndex) -> Block:
    """Draw the tools by section, each with its summary."""
    lines: list[Line] = []
    for section, tools in index.sections:
        lines += [*([line()] if lines else []), line(("heading", section))]
        lines += draw_columns((("tool", tool.name), tool.summary) for tool in tools)
    return block(
        *lines, line(), line(("dim", "Give one of the names as the topic to read its arguments."))
    )


@dataclass(frozen=True, slots=True)
class ToolArgument:
    """An argument of a tool. `values`: the only ones allowed; () allows any."""

    name: str
    type: str
    required: bool
    description: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolHelp:
    """The help of one tool: its description, arguments and rights."""

    name: str
    summary: str
    description: str
    arguments: tuple[ToolArgument, ...]
    rights: str
    scope: str


@view_for_reader(ToolHelp)
def draw_tool_help(tool: ToolHelp, reader: Reader) -> Block:
    """Draw a tool's description and arguments; a model reads nothing of rights."""
    lines = [line(("tool", tool.name)), *text_lines(tool.description, indent=2), line()]
    if tool.arguments:
        lines.append(line(("heading", "Arguments:")))
        lines += draw_columns(
            (
                ("mark", f"{argument.name}{'' if argument.required else '?'}"),
                "|".join(argument.values) or argument.type,
                argument.description,
            )
            for argument in tool.arguments
        )
    else:
        lines.append(line("It takes no arguments."))
    if reader.kind == "model":
        return block(*lines)
    rights = f"{tool.rights}. " if tool.rights else ""
    return block(*lines, line(), line(("dim", f"{rights}A token needs the scope {tool.scope}.")))


def help_for_program(reader: Reader, topic: str | None) -> ToolIndex | ToolHelp:
    """Return the help on a tool, on a group of verbs, or on all tools.

    Raises:
        NotFound: if the reader has no tool of that name.
    """
    verbs_by_name = {
        reader.name_verb(verb.name): verb for verb in every_verb() if reader.name_verb(verb.name)
    }
    if topic is None:
        return _list_tools(reader, list(verbs_by_name.values()))
    name = topic.strip().removeprefix("/").lower()
    bare = name.replace("__", ".").replace(":", ".").rpartition(".")[2]
    tool_verb = verbs_by_name.get(name) or verbs_by_name.get(bare)
    if tool_verb is None:
        tool_verb = next((verb for verb in verbs_by_name.values() if verb.tool == bare), None)
    if tool_verb is None:
        entry = find_entry(name)
        if isinstance(entry, VerbGroup):
            group = [verb for verb in entry.verbs if verb in verbs_by_name.values()]
            if group:
                return _list_tools(reader, group)
        tool_verb = find_verb(name)
    if tool_verb is None or tool_verb not in verbs_by_name.values():
        raise NotFound(
            f"Unknown help topic {shorten_name(topic)}.",
            hint=suggest_near_names(bare, verbs_by_name)
            or next_call("{}, without a topic, lists the tools.", "help"),
        )
    return _describe_tool(reader, tool_verb)


def _list_tools(reader: Reader, verbs: list[Verb]) -> ToolIndex:
    sections = (
        (
            section,
            tuple(
                ListedToolHelp(reader.name_verb(verb.name), verb.group or verb.name, verb.summary)
                for verb in verbs
                if verb.section == section
            ),
        )
        for section in SECTIONS
    )
    return ToolIndex(tuple((section, tools) for section, tools in sections if tools))


def _describe_tool(reader: Reader, verb: Verb) -> ToolHelp:
    schema = verb.input_schema
    required = schema.get("required", ())
    return ToolHelp(
        name=reader.name_verb(verb.name),
        summary=verb.summary,
        description=verb.program_detail,
        arguments=tuple(
            _describe_argument(name, described, name in required)
            for name, described in schema["properties"].items()
            if reader.knows_argument(f"{verb.namespace}:{verb.tool}", name)
        ),
        rights=verb.rights,
        scope=verb.change_scope.value,
    )


def _describe_argument(name: str, described: dict[str, Any], required: bool) -> ToolArgument:
    options = [
        option for option in described.get("anyOf", [described]) if option.get("type") != "null"
    ]
    choices = [str(value) for option in options for value in option.get("enum", ())]
    kinds = " or ".join(dict.fromkeys(str(option.get("type", "any")) for option in options))
    return ToolArgument(name, kinds, required, described.get("description", ""), tuple(choices))
