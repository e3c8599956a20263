"""Custom commands: a `command:NAME` data thing adds the line command `/NAME`.

It works in the room, or for the agent, that it is equipped on. A verb of the same name takes
precedence.

A text that begins with `--`, or with the word `function`, `local` or `return`, is a Lua script. Any
other text is a line to type, in which `{args}` stands for the text after the name and `{1}` for the
first word of that text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sshwarma.common.limits import MAX_COMMAND_LINE_CHARACTERS, MAX_EXPANDED_CHARACTERS
from sshwarma.common.shorten import shorten_text
from sshwarma.lua_tools.declaration import read_summary
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, block, line, text_lines
from sshwarma.tools.arguments import split_words
from sshwarma.verbs.registry import Verb, find_entry
from sshwarma.verbs.views import view
from sshwarma.world.access import TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, Invalid, WorldError, too_long_error
from sshwarma.world.names import COMMAND_PREFIX
from sshwarma.world.overrides import CONFIRM_KEY
from sshwarma.world.things import Thing

MAX_COMMAND_SUMMARY_CHARACTERS: Final = 80

_FREE_SECTIONS: Final = ("Looking", "Moving", "Talking")
"""Sections of verbs that a command runs without a tool that is equipped."""

_SCRIPT_START: Final = re.compile(r"""\s*(?:--|(?:function|local|return)(?=[\s({\["']|$))""")
_PLACEHOLDER: Final = re.compile(r"\{(args|[1-9])\}")
_COMMAND_WORD: Final = re.compile(r"/(\S+)\s*")


def is_script_text(text: str) -> bool:
    """Return whether the text of a command is a Lua script."""
    return _SCRIPT_START.match(text) is not None


@dataclass(frozen=True, slots=True)
class CustomCommand:
    """An equipped custom command."""

    name: str
    thing: Thing

    @property
    def text(self) -> str:
        """The script or line, without white space at its end."""
        return (self.thing.content or "").rstrip()

    @property
    def is_script(self) -> bool:
        """Whether the text is a Lua script."""
        return is_script_text(self.text)

    @property
    def summary(self) -> str:
        """One line about the command, at most MAX_COMMAND_SUMMARY_CHARACTERS."""
        source = self.thing.description or (
            read_summary(self.text) if self.is_script else self.text
        )
        first_line = source.split("\n", 1)[0]
        return (
            first_line
            if len(first_line) <= MAX_COMMAND_SUMMARY_CHARACTERS
            else first_line[: MAX_COMMAND_SUMMARY_CHARACTERS - 1] + "…"
        )

    def expanded(self, text: str) -> str:
        """Expand the line of the command with the text typed after its name.

        Placeholders in the typed text are not expanded.

        Raises:
            Invalid: if a word that the line needs is missing, or the expanded line is too long.
        """
        if not _PLACEHOLDER.search(self.text):
            expanded = f"{self.text} {text}".rstrip()
        else:
            words = text.split()
            places = [int(place) for place in _PLACEHOLDER.findall(self.text) if place != "args"]
            if max(places, default=0) > len(words):
                requirement = "a word" if max(places) == 1 else f"{max(places)} words"
                raise Invalid(
                    f"/{self.name} needs {requirement} after it.",
                    hint=f"It stands for {self.summary}",
                )
            expanded = _PLACEHOLDER.sub(
                lambda place: text if place[1] == "args" else words[int(place[1]) - 1], self.text
            )
        if len(expanded) > MAX_EXPANDED_CHARACTERS:
            what = f"The line that /{self.name} expands to"
            raise too_long_error(what, len(expanded), MAX_EXPANDED_CHARACTERS)
        return expanded


@dataclass(frozen=True, slots=True)
class ScriptOutput:
    """The output of a command's script, shown only to its caller."""

    command: str
    text: str
    structured: Any
    printed: tuple[str, ...]


@view(ScriptOutput)
def draw_script_output(answer: ScriptOutput) -> Block:
    """Draw the answer of a command's script, then the lines that it printed."""
    log_lines = [line(("dim", text), hang=2) for text in answer.printed]
    return block(*(text_lines(answer.text) if answer.text else ()), *log_lines)


async def list_equipped_commands(caller: Caller) -> list[CustomCommand]:
    """List the commands that are equipped for a caller here, by name."""
    load = await caller.loadout()
    equipped: dict[str, CustomCommand] = {}
    for item in load.data:
        name = item.thing.name.removeprefix(COMMAND_PREFIX).lower()
        if item.thing.name.startswith(COMMAND_PREFIX) and name and find_entry(name) is None:
            equipped.setdefault(name, CustomCommand(name, item.thing))
    return [command for _, command in sorted(equipped.items())]


async def list_own_names(caller: Caller) -> list[str]:
    """List what the caller can type besides verbs: equipped commands and its aliases."""
    equipped = await list_equipped_commands(caller)
    return [*(command.name for command in equipped), *caller.agent.aliases]


async def find_typed_command(caller: Caller, text: str) -> tuple[CustomCommand, str] | None:
    """Find the command that a line begins with; return it and the text after it."""
    match = _COMMAND_WORD.match(text)
    if match is None or find_entry(match[1]) is not None:
        return None
    name = match[1].lower()
    for command in await list_equipped_commands(caller):
        if command.name == name:
            return command, text[match.end() :]
    return None


async def run_script(caller: Caller, command: CustomCommand, text: str) -> ScriptOutput:
    """Run the script of a command with the rights of the caller who typed it.

    Raises:
        WorldError: with the error of the script.
    """
    result = await services_of(caller).lua_tools.run_command(
        caller, command.thing, text, split_words(text)
    )
    if result.is_error:
        hint = (
            f"It printed: {shorten_text(result.printed_lines[-1])}" if result.printed_lines else ""
        )
        raise WorldError(f"/{command.name} failed: {result.text}", hint=hint)
    return ScriptOutput(command.name, result.text, result.structured, result.printed_lines)


async def check_command_verb(
    caller: Caller, command: CustomCommand, verb: Verb, arguments: Mapping[str, Any], line: str
) -> None:
    """Raise unless a command may run a verb for its caller.

    Only what its caller could call as a tool here, without a question, also if it is in the
    caller's own bag: a script of another can have put it there in the caller's name. What only
    looks, talks or moves need not be equipped.

    Raises:
        Forbidden: with the line, which may be somebody else's.
        NotFound, Unavailable: if the tool is not equipped here, or cannot be used.
    """
    tools, spec = services_of(caller).tools, verb.tool_spec
    name = None if spec is None else f"{spec.namespace}:{spec.name}"
    if verb.name == "run":
        name = str(arguments["name"])  # who planted it could answer the question of an approval
    reason = "it is not a tool"
    if name is not None:
        tool = await tools.find_enabled(caller, name)
        if not tool.metadata.get(CONFIRM_KEY):
            is_free = verb.section in _FREE_SECTIONS and verb.change_scope is not TokenScope.BUILD
            if not is_free and verb.name != "run":
                await tools.find(caller, name)
            _check_length(command, verb)
            return
        reason = "it needs an approval"
    raise Forbidden(
        f"/{command.name} may not run /{verb.name} for you: {reason}.",
        hint=f"It stands for {shorten_text(line)!r}.",
    )


def _check_length(command: CustomCommand, verb: Verb) -> None:
    """Raise unless the audit, which cuts lines, can show what a command does.

    Raises:
        Invalid: if the line of the command is too long; not of one that talks.
    """
    if verb.section != "Talking" and len(command.text) > MAX_COMMAND_LINE_CHARACTERS:
        raise too_long_error(
            f"The line of /{command.name}", len(command.text), MAX_COMMAND_LINE_CHARACTERS,
            hint="Make it a script: begin it with --",
        )  # fmt: skip
