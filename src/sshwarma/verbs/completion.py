"""Tab completion of lines: verbs, actions of a group, arguments and flags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sshwarma.common.limits import MAX_COMPLETIONS
from sshwarma.terminal.completion import Candidate
from sshwarma.verbs import commands
from sshwarma.verbs.arguments import CompletionRequest, Option, agent_options
from sshwarma.verbs.grammar import is_talk
from sshwarma.verbs.registry import Parameter, Verb, VerbGroup, every_entry, find_entry
from sshwarma.world.caller import Caller


async def complete(caller: Caller, text: str, cursor: int) -> Sequence[Candidate]:
    """List candidates for the word that ends at the cursor, the most likely first."""
    prefix = text[:cursor]
    is_line = not is_talk(prefix)
    separators = " \n," if is_line else " \n"
    start = 1 + max(prefix.rfind(separator) for separator in separators)
    fragment = prefix[start:]
    if is_line and " " not in prefix:
        options = await _list_first_words(caller)
    elif is_line:
        options = await _list_argument_options(caller, prefix[:start], fragment)
    elif fragment.startswith("@"):
        options = agent_options(caller, "@")
    else:
        return []
    matching = _filter_options(options, fragment)
    if not matching and fragment.startswith("@"):  # where a name will do, @NAME does too
        names = {agent.name for agent in caller.world.agents}
        matching = _filter_options(
            [(f"@{word}", note) for word, note in options if word in names], fragment
        )
    return [
        Candidate(word, word, note, start, space=not word.endswith(("=", "/")))
        for word, note in matching[:MAX_COMPLETIONS]
    ]


def _filter_options(options: Sequence[Option], typed: str) -> list[Option]:
    prefix = typed.lower()
    return [option for option in options if option[0].lower().startswith(prefix)]


async def _list_first_words(caller: Caller) -> list[Option]:
    options = [
        *((entry.name, entry.summary) for entry in every_entry()),
        *(
            (command.name, command.summary)
            for command in await commands.list_equipped_commands(caller)
        ),
        *sorted(caller.agent.aliases.items()),
    ]
    return [(f"/{name}", note) for name, note in options]


async def _list_argument_options(caller: Caller, before: str, typed: str) -> list[Option]:
    """List the options for the word `typed` after the text `before`."""
    command, *arguments = before.replace(",", ", ").split()
    words = caller.agent.aliases.get(command[1:].lower(), command).split()
    entry = find_entry(words[0])
    arguments = [*words[1:], *arguments]
    if isinstance(entry, VerbGroup):
        if not arguments:
            return await _list_action_options(caller, entry)
        action = entry.find_typed(arguments[0])
        arguments = arguments[1:] if action is not None else arguments
        entry = action or entry.default_for(arguments[0])
    return await _list_options_after(caller, entry, arguments, typed) if entry is not None else []


async def _list_action_options(caller: Caller, group: VerbGroup) -> list[Option]:
    """List the actions of a group, and the arguments of its default verb."""
    actions = [(verb.action, verb.summary) for verb in group.verbs]
    default = group.default_for(None)
    if default is None:
        return actions
    if not group.default_takes_words:
        return actions + _list_flag_options(default, [])
    return actions + await _list_options_after(caller, default, [])


async def _list_options_after(
    caller: Caller, verb: Verb, given: list[str], typed: str = ""
) -> list[Option]:
    """List the values and flags that can follow the arguments in `given`.

    Flags may stand anywhere before free text. Before a required argument they are listed only if
    the word `typed` begins with a dash.
    """
    position = _find_position(verb, given)
    options = await _list_values(caller, position.parameter, given, typed)
    waits = position.parameter is not None and position.parameter.required
    if position.is_flag_value or position.is_in_text or (waits and not typed.startswith("-")):
        return options
    return options + _list_flag_options(verb, given)


def _list_flag_options(verb: Verb, given: list[str]) -> list[Option]:
    used_flags = {word.partition("=")[0] for word in given}
    return [
        (f"--{option}", parameter.help)
        for option, parameter in verb.flags.items()
        if parameter.many or f"--{option}" not in used_flags
    ]


@dataclass(frozen=True, slots=True)
class _Position:
    """The parameter that the next word belongs to; None if no more words fit."""

    parameter: Parameter | None
    is_flag_value: bool = False
    is_in_text: bool = False  # whether free text has begun, which takes the rest of the line


def _find_position(verb: Verb, given: Sequence[str]) -> _Position:
    parameters = list(verb.positional)
    flag: Parameter | None = None
    for word in given:
        if flag is not None:
            flag = None
        elif parameters and parameters[0].arg.kind == "command" and word == "--":
            return _Position(None, is_in_text=True)
        elif word.startswith("--"):
            parameter = verb.typed_flags.get(word.removeprefix("--").partition("=")[0])
            flag = parameter if parameter and not parameter.boolean and "=" not in word else None
        elif parameters and parameters[0].is_text:
            return _Position(parameters[0], is_in_text=True)
        elif parameters and word != parameters[0].arg.particle and not parameters[0].arg.rest:
            if len(parameters) > 1 and not parameters[0].accepts_word(word):
                parameters.pop(0)
            parameters.pop(0)
    if flag is not None:
        return _Position(flag, is_flag_value=True)
    return _Position(parameters[0] if parameters else None)


async def _list_values(
    caller: Caller, parameter: Parameter | None, given: Sequence[str], typed: str
) -> list[Option]:
    if parameter is None:
        return []
    if parameter.choices:
        return [(choice, "") for choice in parameter.choices]
    options = [(word, "") for word in parameter.arg.words]
    if parameter.arg.complete is None:
        return options
    request = CompletionRequest(caller, tuple(given), typed)
    return options + list(await parameter.arg.complete(request))
