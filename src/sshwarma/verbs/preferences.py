"""Yourself: help, settings, aliases, going away."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import sshwarma
from sshwarma.common.limits import MAX_ALIASES
from sshwarma.terminal.text import Block, Line, block, line, text_lines
from sshwarma.verbs import commands
from sshwarma.verbs.arguments import Arg, Word
from sshwarma.verbs.registry import GROUPS, Verb, every_verb, find_verb, verb, verb_names
from sshwarma.verbs.views import Confirmation, draw_columns, view
from sshwarma.world import agents
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, NotFound
from sshwarma.world.resources import resource_dir


@dataclass(frozen=True, slots=True)
class HelpIndex:
    groups: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]  # group, (verb, summary)
    topics: tuple[str, ...]
    commands: tuple[tuple[str, str], ...] = ()  # those equipped here: name, summary


@view(HelpIndex)
def draw_help_index(index: HelpIndex) -> Block:
    lines: list[Line] = [
        line(
            "What you type is said to the room; what begins with ",
            ("verb", "/"),
            " is done.",
            hang=2,
        )
    ]
    for group, verbs in index.groups:
        lines += [line(), line(("heading", group))]
        lines += draw_columns((("verb", f"/{name}"), summary) for name, summary in verbs)
    if index.commands:
        lines += [line(), line(("heading", "Commands equipped here"))]
        lines += draw_columns((("verb", f"/{name}"), summary) for name, summary in index.commands)
    lines += [
        line(),
        line(("verb", "/help VERB"), " tells more. Topics: ", ", ".join(index.topics), hang=2),
    ]
    return block(*lines)


@dataclass(frozen=True, slots=True)
class HelpVerb:
    name: str
    usage: str
    summary: str
    detail: str
    aliases: tuple[str, ...]
    arguments: tuple[tuple[str, str], ...]
    examples: tuple[str, ...]
    needs: str | None
    tool: str | None


@view(HelpVerb)
def draw_help_verb(result: HelpVerb) -> Block:
    lines: list[Line] = [line(("verb", result.usage), hang=4), line(f"  {result.summary}", hang=2)]
    if result.detail:
        lines += [line(), *text_lines(result.detail, indent=2)]
    if result.arguments:
        lines += [line(), *draw_columns((("mark", name), text) for name, text in result.arguments)]
    lines += [line(), line(("heading", "Examples:"))]
    lines += [line("  ", ("verb", example)) for example in result.examples]
    notes = []
    if result.aliases:
        notes.append(f"Also: {', '.join(f'/{alias}' for alias in result.aliases)}.")
    if result.needs:
        notes.append(f"Needs the {result.needs} right.")
    if result.tool:
        notes.append(f"Models know it as {result.tool}.")
    if notes:
        lines += [line(), line(("dim", " ".join(notes)), hang=2)]
    return block(*lines)


@dataclass(frozen=True, slots=True)
class HelpCommand:
    """A command that somebody made, and its whole text."""

    name: str
    summary: str
    kind: str  # script, line
    text: str


@view(HelpCommand)
def draw_help_command(result: HelpCommand) -> Block:
    what = "a Lua script" if result.kind == "script" else "a line"
    return block(
        line(("verb", f"/{result.name}"), f" is a command that was made here: {what}.", hang=2),
        line(),
        *text_lines(result.text, indent=2),
    )


@dataclass(frozen=True, slots=True)
class HelpTopic:
    topic: str
    text: str


@view(HelpTopic)
def draw_help_topic(result: HelpTopic) -> Block:
    lines: list[Line] = []
    for text in result.text.rstrip().split("\n"):
        if text.startswith("# "):
            lines.append(line(("heading", text.removeprefix("# "))))
        else:
            lines.append(line(text, hang=len(text) - len(text.lstrip())))
    return block(*lines)


@verb(
    "help",
    group="Yourself",
    aliases=("h", "?"),
    examples=("/help", "/help portal", "/help keys"),
    namespace="global",
)
async def show_help(
    caller: Caller, topic: Annotated[str, Arg("topic")] | None = None
) -> HelpIndex | HelpVerb | HelpCommand | HelpTopic:
    """Show help

    Left bare, every verb with a line each.

    topic: a verb, a command that is equipped, or one of the topics at the end of /help.
    """
    if topic is None:
        groups = (
            (
                group,
                tuple(
                    (known.name, known.summary) for known in every_verb() if known.group == group
                ),
            )
            for group in GROUPS
        )
        made = await commands.list_equipped_commands(caller)
        return HelpIndex(
            tuple((group, verbs) for group, verbs in groups if verbs),
            tuple(load_help_topics()),
            tuple((command.name, command.summary) for command in made),
        )
    known = find_verb(topic)
    if known is not None:
        return _make_verb_help(known)
    command = await commands.find_typed_command(caller, f"/{topic.removeprefix('/')}")
    if command is not None:
        found, kind = command[0], "script" if command[0].is_script else "line"
        return HelpCommand(found.name, found.summary, kind, found.text)
    text = load_help_topics().get(topic.lower())
    if text is not None:
        return HelpTopic(topic.lower(), text)
    near = difflib.get_close_matches(
        topic.lower(), [*verb_names(), *load_help_topics()], n=3, cutoff=0.5
    )
    hint = f"Did you mean {' or '.join(near)}?" if near else "/help lists verbs and topics."
    raise NotFound(f"There is no help on {topic[:40]}.", hint=hint)


def load_help_topics() -> dict[str, str]:
    """The help texts shipped with the program, by name."""
    return {
        entry.name.removesuffix(".md"): entry.read_text(encoding="utf-8")
        for entry in sorted((resource_dir("embedded") / "help").iterdir())
        if entry.name.endswith(".md")
    }


@dataclass(frozen=True, slots=True)
class Version:
    version: str


@view(Version)
def draw_version(result: Version) -> Block:
    return block(f"sshwarma {result.version}")


@verb("version", group="Yourself", examples=("/version",), namespace="global")
async def version(caller: Caller) -> Version:
    """Show the version of this server"""
    return Version(sshwarma.__version__)


@dataclass(frozen=True, slots=True)
class Preference:
    """One setting of one's own: the values it may have, the first of them the default."""

    values: tuple[str, ...]
    help: str


PREFERENCES: Final[Mapping[str, Preference]] = {
    "theme": Preference(("dark", "light", "mono"), "colours for a dark or a light background"),
    "plain": Preference(("off", "on"), "for screen readers: no live redraws, no box drawing"),
    "timestamps": Preference(("off", "on"), "the time before every line"),
    "bell": Preference(("on", "off"), "ring when somebody mentions you or tells you something"),
    "markdown": Preference(
        ("on", "off"), "answers of models with headings, lists and code drawn; off: as written"
    ),
    "tools": Preference(
        ("folded", "full", "hidden"), "calls of tools: a line each, with results, only failures"
    ),
    "vi": Preference(("off", "on"), "vi keys in the line editor"),
    "start": Preference(("lobby", "last"), "where a login lands: the lobby or where you last were"),
    "history": Preference(("20", "0", "50", "100"), "lines of a room shown on entering it"),
}


def read_preference(prefs: Mapping[str, Any], name: str) -> str:
    """What somebody has set, or its default; also if that value is none any more."""
    known = PREFERENCES[name]
    value = prefs.get(name)
    return value if value in known.values else known.values[0]


@dataclass(frozen=True, slots=True)
class PreferenceValues:
    values: tuple[tuple[str, str, str, str], ...]  # name, value, other values, help


@view(PreferenceValues)
def draw_preference_values(settings: PreferenceValues) -> Block:
    return block(
        line(("heading", "Your settings:")),
        *draw_columns(
            (("mark", name), value, ("dim", f"({others})"), text)
            for name, value, others, text in settings.values
        ),
    )


@verb("set", group="Yourself", tool=False, examples=("/set", "/set plain on", "/set theme light"))
async def set_preference(
    caller: Caller, setting: Annotated[str, Arg("setting")] | None = None, value: Word | None = None
) -> PreferenceValues | Confirmation:
    """See and change your settings

    They are yours on every connection, at once.

    setting: one of those /set shows.
    value: one of its values.
    """
    prefs: dict[str, Any] = dict(caller.agent.prefs)
    if setting is None:
        return PreferenceValues(
            tuple(
                (name, read_preference(prefs, name), ", ".join(known.values), known.help)
                for name, known in PREFERENCES.items()
            )
        )
    known = PREFERENCES.get(setting)
    if known is None:
        raise NotFound(
            f"There is no setting {setting[:40]}.", hint=f"There are {', '.join(PREFERENCES)}."
        )
    if value is None:
        return Confirmation(f"{setting} is {read_preference(prefs, setting)}.")
    if value not in known.values:
        raise Invalid(f"{setting} is one of {', '.join(known.values)}.")
    prefs[setting] = value
    await caller.change(lambda tx: agents.update_agent(tx, caller.agent.id, prefs=prefs))
    return Confirmation(f"{setting} is {value}.")


@dataclass(frozen=True, slots=True)
class AliasList:
    aliases: tuple[tuple[str, str], ...]


@view(AliasList)
def draw_alias_list(result: AliasList) -> Block:
    if not result.aliases:
        return block(
            line("You have no aliases. ", ("verb", "/alias NAME = /verb …"), " makes one.")
        )
    return block(*draw_columns((("verb", f"/{name}"), meaning) for name, meaning in result.aliases))


@verb(
    "alias",
    group="Yourself",
    tool=False,
    examples=("/alias", "/alias ws = /join workshop", "/alias ws = -"),
)
async def alias(
    caller: Caller,
    name: Word | None = None,
    meaning: Annotated[str, Arg("text", rest=True, particle="=")] | None = None,
) -> AliasList | Confirmation:
    """See and make short names for what you often type

    What follows an alias on the line is added to its meaning.

    name: the short name, without a slash.
    meaning: what it stands for; - removes it.
    """
    known = dict(caller.agent.aliases)
    if name is None:
        return AliasList(tuple(sorted(known.items())))
    short = name.removeprefix("/").lower()
    if meaning is None:
        if short not in known:
            raise NotFound(f"You have no alias {short[:40]}.")
        return AliasList(((short, known[short]),))
    if find_verb(short) is not None:
        raise Conflict(f"/{short} is a verb already.")
    if (
        not short.replace("-", "").replace("_", "").isalnum()
        or len(short) > 32
        or not short.isascii()
    ):
        raise Invalid("An alias is letters and digits, 32 at most.")
    if not meaning.strip():
        raise Invalid(f"Say what /{short} stands for.", hint="- removes it.")
    if meaning.strip() == "-":
        known.pop(short, None)
        answer = f"/{short} is gone."
    else:
        known[short] = meaning.strip()[:1000]
        answer = f"/{short} now means {known[short]}"
    if len(known) > MAX_ALIASES:
        raise Conflict(f"You have {MAX_ALIASES} aliases, which is the most.")
    await caller.change(lambda tx: agents.update_agent(tx, caller.agent.id, aliases=known))
    return Confirmation(answer)


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The caller wants to go."""

    text: str


@view(Goodbye)
def draw_goodbye(goodbye: Goodbye) -> Block:
    return block(goodbye.text)


@verb("quit", group="Yourself", tool=False, aliases=("exit", "bye"), examples=("/quit",))
async def quit_world(caller: Caller) -> Goodbye:
    """Leave the world

    Ctrl-D on an empty line does the same.
    """
    return Goodbye("Goodbye.")


def _make_verb_help(known: Verb) -> HelpVerb:
    return HelpVerb(
        known.name,
        known.usage,
        known.summary,
        known.detail,
        known.aliases,
        tuple(
            (f"--{parameter.option}" if parameter.flag else parameter.name, parameter.help)
            for parameter in (*known.positional, *known.flags.values())
        ),
        known.examples,
        known.needs.value if known.needs else None,
        f"{known.namespace}:{known.tool}" if known.tool else None,
    )
