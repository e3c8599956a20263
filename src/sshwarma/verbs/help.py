"""The verb help: verbs, groups, equipped commands and topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated, ClassVar, Final

from sshwarma.common.limit_text import fill_limits
from sshwarma.common.near_names import find_near_names, suggest_names, suggest_near_names
from sshwarma.common.shorten import shorten_name
from sshwarma.models.how_to import HowTo, parse_how_tos
from sshwarma.terminal.text import Block, Line, block, line, reflowed, text_lines
from sshwarma.verbs import commands
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option
from sshwarma.verbs.program_help import ToolHelp, ToolIndex, help_for_program
from sshwarma.verbs.registry import (
    SECTIONS,
    Parameter,
    Verb,
    VerbGroup,
    every_entry,
    find_entry,
    find_verb,
    verb,
    verb_names,
)
from sshwarma.verbs.views import draw_columns, split_usage, view
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound
from sshwarma.world.reader import next_call
from sshwarma.world.resources import resource_dir

SSH_FLAGS_NOTE: Final = "Over ssh also: --json, --room ROOM, --stdin (/help scripts)."


@dataclass(frozen=True, slots=True)
class HelpIndex:
    """The index of the help: verbs and groups by section, equipped commands, topics."""

    terminal_only: ClassVar[bool] = True

    sections: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]  # section, (verb, summary)
    topics: tuple[str, ...]
    commands: tuple[tuple[str, str], ...] = ()  # those equipped here: name, summary


@view(HelpIndex)
def draw_help_index(index: HelpIndex) -> Block:
    """Draw the summary of every verb, the equipped commands and the topics."""
    lines: list[Line] = [
        line(
            "What you type is said to the room; a line that begins with ",
            ("verb", "/"),
            " is a verb.",
            hang=2,
        )
    ]
    for section, verbs in index.sections:
        lines += [line(), line(("heading", section))]
        lines += draw_columns((("verb", f"/{name}"), summary) for name, summary in verbs)
    if index.commands:
        lines += [line(), line(("heading", "Commands equipped here"))]
        lines += draw_columns((("verb", f"/{name}"), summary) for name, summary in index.commands)
    lines += [
        line(),
        line(("verb", "/help VERB"), " shows details. Topics: ", ", ".join(index.topics), hang=2),
    ]
    return block(*lines)


@dataclass(frozen=True, slots=True)
class HelpGroup:
    """The help of a group: its default action, and the usage of each action."""

    terminal_only: ClassVar[bool] = True

    name: str
    summary: str
    detail: str
    aliases: tuple[str, ...]
    default: str
    verbs: tuple[tuple[str, str], ...]  # usage, summary


@view(HelpGroup)
def draw_help_group(result: HelpGroup) -> Block:
    """Draw the help of a group, with the usage of each action."""
    lines: list[Line] = [
        line(("verb", f"/{result.name} ACTION")),
        line(f"  {result.summary}", hang=2),
    ]
    if result.detail:
        lines += [line(), *reflowed(result.detail, indent=2)]
    lines.append(line())
    for usage, summary in result.verbs:
        lines += [_draw_usage(usage, indent=2), line("    ", summary, hang=4)]
    notes = [f"/help {result.name} ACTION shows details."]
    if result.default:
        notes.append(f"/{result.name} alone is /{result.name} {result.default}.")
    if result.aliases:
        notes.append(f"Also: {', '.join(f'/{alias}' for alias in result.aliases)}.")
    return block(*lines, line(), line(("dim", " ".join(notes)), hang=2))


@dataclass(frozen=True, slots=True)
class HelpVerb:
    """The help of one verb."""

    terminal_only: ClassVar[bool] = True

    name: str
    usage: str
    summary: str
    detail: str
    aliases: tuple[str, ...]
    arguments: tuple[tuple[str, str], ...]
    examples: tuple[str, ...]
    needs: str | None
    rights: str
    tool: str | None


@view(HelpVerb)
def draw_help_verb(result: HelpVerb) -> Block:
    """Draw the usage, text, arguments and examples of one verb."""
    lines: list[Line] = [_draw_usage(result.usage), line(f"  {result.summary}", hang=2)]
    if result.detail:
        lines += [line(), *reflowed(result.detail, indent=2)]
    if result.arguments:
        lines += [line(), *draw_columns((("mark", name), text) for name, text in result.arguments)]
    lines += [line(), line(("heading", "Examples:"))]
    lines += [line("  ", ("verb", example), hang=4) for example in result.examples]
    notes = []
    if result.aliases:
        notes.append(f"Also: {', '.join(f'/{alias}' for alias in result.aliases)}.")
    if result.rights:
        notes.append(f"{result.rights}: /help access.")
    if result.tool:
        notes.append(f"As a tool: {result.tool}.")
    notes.append(SSH_FLAGS_NOTE)
    lines += [line(), line(("dim", " ".join(notes)), hang=2)]
    return block(*lines)


def _draw_usage(usage: str, indent: int = 0) -> Line:
    spans = (("", " " * indent), *split_usage(usage))
    return Line(spans, hang=indent + 4, breaks_between_spans=True)


@dataclass(frozen=True, slots=True)
class HelpCommand:
    """A custom command, and its whole text."""

    terminal_only: ClassVar[bool] = True

    name: str
    summary: str
    kind: str  # script, line
    text: str


@view(HelpCommand)
def draw_help_command(result: HelpCommand) -> Block:
    """Draw the text of a custom command."""
    kind = "a Lua script" if result.kind == "script" else "a line"
    return block(
        line(("verb", f"/{result.name}"), f" is a command that was made here: {kind}.", hang=2),
        line(),
        *text_lines(result.text, indent=2),
    )


@dataclass(frozen=True, slots=True)
class HelpTopic:
    """A help text that ships with the program."""

    terminal_only: ClassVar[bool] = True

    topic: str
    text: str


@view(HelpTopic)
def draw_help_topic(result: HelpTopic) -> Block:
    """Draw a help text, with its headings and its paragraphs wrapped."""
    lines: list[Line] = []
    for text_line in reflowed(result.text.rstrip()):
        text = text_line.plain()
        heading = text.removeprefix("# ")
        lines.append(text_line if heading == text else line(("heading", heading)))
    return block(*lines)


async def complete_topics(request: CompletionRequest) -> list[Option]:
    """List the verbs and topics, or the actions of the group in `request.given`."""
    if request.given:
        entry = find_entry(request.given[0])
        if not isinstance(entry, VerbGroup) or len(request.given) > 2:
            return []
        return list(entry.list_words(" ".join(request.given[1:])).items())
    return [
        *((name, "") for name in verb_names()),
        *((topic, "topic") for topic in load_help_topics()),
    ]


@verb(
    "help",
    section="Yourself",
    aliases=("h", "?"),
    examples=("/help", "/help portal", "/help mcp add", "/help accounts"),
    namespace="global",
    aside=True,
)
async def show_help(
    caller: Caller, topic: Annotated[str, Arg(rest=True, complete=complete_topics)] | None = None
) -> HelpIndex | HelpGroup | HelpVerb | HelpCommand | HelpTopic | ToolIndex | ToolHelp:
    """Show help.

    Without a topic, everything there is with a line each.

    For models:
        Show how a tool works: its name.

        topic: name of a tool (default: list the tools)

    Args:
        topic: a verb, a group of verbs, one verb of a group, or a topic.
    """
    reader = caller.reader
    if not reader.is_person:
        return help_for_program(reader, topic)
    if topic is None:
        return await _make_index(caller)
    name, *words = topic.removeprefix("/").split() or [""]
    entry = find_entry(name)
    if isinstance(entry, VerbGroup):
        return _help_of_action(entry, words) if words else _help_of_group(entry)
    topic_verb = entry if not words else None
    topic_verb = topic_verb or find_verb(name) if "_" in name and not words else topic_verb
    if topic_verb is not None:
        return _help_of_verb(topic_verb)
    command = await commands.find_typed_command(caller, f"/{name}")
    if command is not None:
        custom_command, kind = command[0], "script" if command[0].is_script else "line"
        return HelpCommand(custom_command.name, custom_command.summary, kind, custom_command.text)
    known = OTHER_TOPIC_WORDS.get(topic.lower(), topic.lower())
    text = load_help_topics().get(known)
    if text is not None:
        return HelpTopic(known, text)
    near = suggest_near_names(name, [*verb_names(), *load_help_topics()])
    hint = near or next_call("{} lists verbs and topics.", "help")
    raise NotFound(f"Unknown help topic {shorten_name(topic)}.", hint=hint)


_OTHER_WORDS: Final = {
    "workspace": "toolsets sandbox",
    "loading": "tools",
    "programs": "api http rest curl openapi sse bot bots bridge bridges irc alarm alarms events",
    "accounts": "account login register registration",
    "agents": "mcp",
    "hooks": "webhook webhooks ci",
    "triggers": "cron automation automations schedule timer timers",
    "scripts": "lua batch script shell",
    "building": "folder folders worlds",
}

OTHER_TOPIC_WORDS: Final[Mapping[str, str]] = {
    word: topic for topic, words in _OTHER_WORDS.items() for word in words.split()
}
"""Words that people may type for a topic, where there is no verb of that name."""


@cache
def load_help_topics() -> Mapping[str, str]:
    """Read the help texts shipped with the program, by name, with values of limits."""
    return MappingProxyType(
        {
            entry.name.removesuffix(".md"): fill_limits(entry.read_text(encoding="utf-8"))
            for entry in sorted((resource_dir("embedded") / "help").iterdir())
            if entry.name.endswith(".md")
        }
    )


def load_how_tos() -> tuple[HowTo, ...]:
    """Read the texts with which the guide answers, with the values of limits."""
    source = (resource_dir("embedded") / "how-to.md").read_text(encoding="utf-8")
    return parse_how_tos(fill_limits(source))


async def _make_index(caller: Caller) -> HelpIndex:
    entries = [(entry.section, (entry.name, entry.summary)) for entry in every_entry()]
    sections = (
        (section, tuple(item for item_section, item in entries if item_section == section))
        for section in SECTIONS
    )
    equipped = await commands.list_equipped_commands(caller)
    return HelpIndex(
        tuple((section, verbs) for section, verbs in sections if verbs),
        tuple(load_help_topics()),
        tuple((command.name, command.summary) for command in equipped),
    )


def _help_of_group(group: VerbGroup) -> HelpGroup:
    return HelpGroup(
        name=group.name,
        summary=group.summary,
        detail=group.detail,
        aliases=group.aliases,
        default=group.default,
        verbs=tuple((group_verb.usage, group_verb.summary) for group_verb in group.verbs),
    )


def _help_of_first_word(group: VerbGroup, first: str) -> HelpGroup:
    """Return the help of the actions of two words that begin with a word."""
    return HelpGroup(
        name=f"{group.name} {first}",
        summary=group.first_words.get(first, group.summary),
        detail="",
        aliases=(),
        default="",
        verbs=tuple(
            (group_verb.usage, group_verb.summary)
            for group_verb in group.verbs
            if group_verb.action.startswith(f"{first} ")
        ),
    )


def _help_of_action(group: VerbGroup, words: list[str]) -> HelpVerb | HelpGroup:
    group_verb = group.find_typed(" ".join(words))
    if group_verb is None:
        if len(words) == 1 and group.list_words(words[0]):
            return _help_of_first_word(group, words[0].lower())
        near_names = find_near_names(" ".join(words).lower(), group.actions)
        hint = suggest_names([f"/help {group.name} {action}" for action in near_names])
        raise NotFound(
            f"Unknown help topic {group.name} {shorten_name(' '.join(words))}.",
            hint=hint or f"/{group.name} has {', '.join(group.actions)}.",
        )
    return _help_of_verb(group_verb)


def _help_of_verb(known: Verb) -> HelpVerb:
    return HelpVerb(
        name=known.name,
        usage=known.usage,
        summary=known.summary,
        detail=known.detail,
        aliases=known.aliases,
        arguments=tuple(
            (_write_form(parameter), parameter.typed_help)
            for parameter in (*known.positional, *known.flags.values())
        ),
        examples=known.examples,
        needs=known.needs.value if known.needs else None,
        rights=known.rights,
        tool=f"{known.namespace}:{known.tool}" if known.tool else None,
    )


def _write_form(parameter: Parameter) -> str:
    """Return how a parameter is typed: `path`, `--yes`, `--timeout TIMEOUT`."""
    return parameter.usage.strip("[]…") if parameter.flag else parameter.option
