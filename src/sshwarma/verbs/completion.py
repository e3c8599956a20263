"""Tab completion of lines: verbs, actions of a group, arguments and flags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sshwarma.common.limits import MAX_COMPLETIONS
from sshwarma.terminal.completion import Candidate
from sshwarma.verbs import commands
from sshwarma.verbs.arguments import CompletionRequest, Option, agent_options
from sshwarma.verbs.called_verb import is_talk
from sshwarma.verbs.registry import Parameter, Verb, VerbGroup, every_entry, find_entry
from sshwarma.verbs.typed_words import TypedWord, WordStyle, split_words, write_word
from sshwarma.world.caller import Caller


@dataclass(frozen=True, slots=True)
class _Offer:
    """The options for the word under the cursor, and how they are written."""

    options: list[Option]
    word: TypedWord
    style: WordStyle = "text"


async def complete(caller: Caller, text: str, cursor: int) -> Sequence[Candidate]:
    """List candidates for the word that ends at the cursor, the most likely first."""
    prefix = text[:cursor]
    is_line = not is_talk(prefix)
    start = 1 + max(prefix.rfind(separator) for separator in " \n")
    word = TypedWord(prefix[start:], prefix[start:], start)
    if is_line and " " not in prefix:
        offer = _Offer(await _list_first_words(caller), word)
    elif is_line:
        offer = await _list_argument_options(caller, prefix)
    elif word.text.startswith("@"):
        offer = _Offer(agent_options(caller, "@"), word)
    else:
        return []
    typed = offer.word.text
    matching = _filter_options(offer.options, typed)
    if not matching and typed.startswith("@"):  # where a name will do, @NAME does too
        names = {agent.name for agent in caller.world.agents}
        matching = _filter_options(
            [(f"@{option}", note) for option, note in offer.options if option in names], typed
        )
    is_quote_next = bool(offer.word.quote) and text[cursor:].startswith(offer.word.quote)
    return [
        _make_candidate(offer, option, note, is_quote_next)
        for option, note in matching[:MAX_COMPLETIONS]
    ]


def _make_candidate(offer: _Offer, option: str, note: str, is_quote_next: bool) -> Candidate:
    """Return the candidate for an option.

    A quote stays open, and no space follows, where more can be typed, as after a folder, or if the
    quote that closes it is next in the line.
    """
    is_whole = not option.endswith(("=", "/")) and not is_quote_next
    word = offer.word
    text = write_word(option, offer.style, word.quote, closed=is_whole)
    return Candidate(text, option, note, word.start, space=is_whole)


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


async def _list_argument_options(caller: Caller, line: str) -> _Offer:
    """List the options for the word at the end of a line, after its first word."""
    command, *given, word = split_words(line, 0, "argument")
    words = caller.agent.aliases.get(command.text[1:].lower(), command.text).split()
    entry = find_entry(words[0])
    after = command.start + len(command.raw)
    given = [*(TypedWord(text, text, after) for text in words[1:]), *given]
    if isinstance(entry, VerbGroup):
        if not given:
            return await _list_action_options(caller, entry, line, word)
        first = given[0].raw
        if words_after := entry.list_words(first):
            if len(given) == 1:
                bare = entry.find_spelled(first)
                flags = [] if bare is None or word.quote else _list_flag_options(bare, [])
                return _Offer([*words_after.items(), *flags], word)
            second = entry.find(f"{first} {given[1].raw}")
            given = given[1:] if second is not None else given
            first = f"{first} {given[0].raw}" if second is not None else first
        action = entry.find_typed(first)
        default = entry.default_for(first)
        given = given[1:] if action is not None else given
        entry = action or default
    return (
        await _list_options_after(caller, entry, line, given, word)
        if entry is not None
        else _Offer([], word)
    )


async def _list_action_options(
    caller: Caller, group: VerbGroup, line: str, word: TypedWord
) -> _Offer:
    """List the actions of a group, and the arguments of its default verb."""
    actions = [] if word.quote else list(group.list_words().items())
    default = group.default_for(None)
    if default is None:
        return _Offer(actions, word)
    if not group.default_takes_words:
        flags = [] if word.quote else _list_flag_options(default, [])
        return _Offer(actions + flags, word)
    offer = await _list_options_after(caller, default, line, [], word)
    return replace(offer, options=actions + offer.options)


async def _list_options_after(
    caller: Caller, verb: Verb, line: str, given: list[TypedWord], word: TypedWord
) -> _Offer:
    """List the values and flags that can follow the arguments in `given`.

    Flags may stand anywhere before free text. Before a required argument they are listed only if
    the word begins with a dash.
    """
    position = _find_position(verb, [one.raw for one in given])
    style = position.style
    if style != "argument":
        at = len(given) if position.text_index is None else position.text_index
        start = given[at].start if at < len(given) else word.start
        *words, word = split_words(line, start, style)
        given = [*given[:at], *words]
    texts = [one.text for one in given]
    options = await _list_values(caller, position.parameter, texts, word.text)
    waits = position.parameter is not None and position.parameter.required
    takes_flags = not (position.is_flag_value or position.is_in_text or word.quote)
    if takes_flags and (not waits or word.text.startswith("-")):
        options = options + _list_flag_options(verb, [one.raw for one in given])
    return _Offer(options, word, style)


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
    text_index: int | None = None  # of the word that begins free text, the rest of the line

    @property
    def is_in_text(self) -> bool:
        """Whether free text has begun."""
        return self.text_index is not None

    @property
    def style(self) -> WordStyle:
        """How the next word is quoted."""
        if self.is_flag_value or self.parameter is None or not self.parameter.arg.rest:
            return "argument"
        return "shell" if self.parameter.arg.is_shell else "text"


def _find_position(verb: Verb, given: Sequence[str]) -> _Position:
    parameters = list(verb.positional)
    flag: Parameter | None = None
    for index, word in enumerate(given):
        if flag is not None:
            flag = None
        elif parameters and parameters[0].arg.kind == "command" and word == "--":
            return _Position(None, text_index=index)
        elif word.startswith("--"):
            parameter = verb.typed_flags.get(word.removeprefix("--").partition("=")[0])
            flag = parameter if parameter and not parameter.boolean and "=" not in word else None
        elif parameters and parameters[0].is_text:
            return _Position(parameters[0], text_index=index)
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
