"""Parser of typed lines: verb and arguments, with errors that point at a word."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from pydantic import ValidationError

from sshwarma.common.shorten import shorten_name
from sshwarma.common.validation_text import describe_validation_error
from sshwarma.verbs.registry import Parameter, Verb, find_verb
from sshwarma.verbs.verb import TEXT_AFTER_EQUALS_NOTE, quote_word
from sshwarma.world.errors import Invalid

_WORD: Final = re.compile(r"\S+")
_QUOTED: Final = {
    "'": re.compile(r"'((?:[^'\\]|\\.)*+)'", re.DOTALL),
    '"': re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL),
}
_EQUALS: Final = re.compile(r"(?<!\S)=(?!\S)")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


class UnknownFlag(Invalid):
    """A flag that a verb does not have. `flags`: those that it has.

    `text_note`: how a text is typed that begins like a flag; "" if no text may follow.
    """

    def __init__(self, verb: Verb, name: str, span: tuple[int, int]) -> None:
        self.flags = tuple(f"--{option}" for option in verb.flags)
        self.text_note = f" {TEXT_AFTER_EQUALS_NOTE}" if verb.has_text_after_equals else ""
        super().__init__(
            f"/{verb.name} has no flag --{shorten_name(name)}.",
            hint=f"It has {' '.join(self.flags) or 'no flags'}.{self.text_note}",
            span=span,
        )


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a line: its text without quotes, and its place in the line.

    A word that begins with a double or single quote may contain spaces; in it a backslash takes the
    next character literally.
    """

    text: str
    start: int
    end: int


def join_texts(text: str | None, piped: str | None) -> str:
    """Return a text and piped text, on lines of their own; either may be missing."""
    return "\n".join(part for part in (text, piped) if part)


def parse_call(
    verb: Verb, line: str, start: int, piped: str | None = None
) -> tuple[Verb, dict[str, Any]]:
    """Parse and validate the arguments of a verb, from `line` after `start`.

    Returns the arguments with their verb, which is another one if a flag spells that.

    `piped` is text from standard input: it is the text argument of the verb, or is added to it.

    Raises:
        Invalid: with the span of the word that is wrong and the usage of the verb.
    """
    arguments, places = _assign_arguments(verb, line, start)
    verb = _apply_spelling(verb, arguments, places)
    if piped is not None:
        text = verb.text
        if text is None:
            raise Invalid(f"/{verb.name} takes no text from a pipe.", hint=f"Usage: {verb.usage}")
        arguments[text.name] = join_texts(arguments.get(text.name), piped)
    for parameter in verb.positional:
        if parameter.required and parameter.name not in arguments:
            raise Invalid(
                f"/{verb.name} needs {_describe_parameter(parameter)}.",
                hint=f"Usage: {verb.usage}",
                span=(len(line), len(line)),
            )
    return verb, validate_arguments(verb, arguments, places)


TextForm: TypeAlias = Literal["missing", "words", "marked"]
"""How a line has the text of its verb: `marked` by `=`, or as the words at its end."""


def find_text_form(verb: Verb, line: str, start: int) -> TextForm:
    """Return how a line has its text; `marked` also if it names a source or is wrong."""
    try:
        arguments, places = _assign_arguments(verb, line, start)
    except Invalid:
        return "marked"
    if verb.text is None or verb.text.name not in arguments:
        others = (one for one in verb.positional if one.required and one is not verb.text)
        is_refused = any(one.name not in arguments for one in others)
        return "marked" if is_refused or verb.text_source in arguments else "missing"
    before = line[start : places[verb.text.name][0]].rstrip()
    is_marked = verb.has_text_after_equals and before.endswith("=")
    return "marked" if is_marked else "words"


def _apply_spelling(
    verb: Verb, arguments: dict[str, Any], places: dict[str, tuple[int, int]]
) -> Verb:
    """Return the verb that a line calls; a flag for another call sets its arguments.

    Raises:
        Invalid: if the line sets one of these arguments too.
    """
    word = next((word for word in verb.spellings if word in arguments), None)
    if word is None:
        return verb
    spelling, called = verb.spellings[word], find_verb(verb.spellings[word].verb)
    del arguments[word]
    if called is None:
        raise LookupError(f"there is no verb {spelling.verb}")
    for name, value in spelling.arguments.items():
        if name in arguments:
            raise Invalid(f"Give only one of: {name}, {word}.", span=places[word])
        arguments[name] = value
    return called


def validate_arguments(
    verb: Verb,
    arguments: dict[str, Any],
    places: dict[str, tuple[int, int]] | None = None,
    called: str = "",
) -> dict[str, Any]:
    """Validate and convert arguments by name.

    `places` are the spans of the arguments in a typed line; None if they come from a program, whose
    errors then name parameters instead of usage, and whose null means that an argument is not
    given. `called` is the name by which a program called the
    verb (default: its name as a tool).

    Raises:
        Invalid: naming every argument that is wrong.
    """
    if places is None:
        arguments = {
            name: value
            for name, value in arguments.items()
            if value is not None or not _has_default(verb, name)
        }
    try:
        model = verb.model.model_validate(arguments)
    except ValidationError as error:
        raise _make_refusal(verb, error, places, called) from error
    values = {name: getattr(model, name) for name in verb.model.model_fields}
    for name, others in verb.excludes.items():
        for other in others:
            if verb.is_given(values, name) and verb.is_given(values, other):
                first, second = (_name_argument(verb, key, places) for key in (name, other))
                span = places.get(other) if places else None
                raise Invalid(f"Give either {first} or {second}, not both.", span=span)
    return values


def _has_default(verb: Verb, name: str) -> bool:
    field = verb.model.model_fields.get(name)
    return field is not None and not field.is_required()


def check_one_is_given(verb: Verb, arguments: dict[str, Any]) -> None:
    """Raise Invalid unless a program gives an argument of the verb's `needs_one_of`."""
    names = verb.needs_one_of
    if names and not any(verb.is_given(arguments, name) for name in names):
        raise Invalid(f"{verb.tool or verb.path}: give {_join_or(names)}.")


def _assign_arguments(
    verb: Verb, line: str, start: int
) -> tuple[dict[str, Any], dict[str, tuple[int, int]]]:
    arguments: dict[str, Any] = {}
    # Joined at the end: a line may have very many words.
    repeated: dict[str, list[Any]] = {}
    lists: dict[str, list[str]] = {}
    places: dict[str, tuple[int, int]] = {}
    parameters = list(verb.positional)
    at, has_flags = start, True
    while (match := _WORD.search(line, at)) is not None:
        parameter = _take_next(verb, parameters, match[0])
        if has_flags and _is_flag(verb, match[0], parameter):
            flag, value, at = _read_flag(verb, line, Word(match[0], match.start(), match.end()))
            parameters = _parameters_after(verb, flag, parameters)
            if flag.many:
                repeated.setdefault(flag.name, []).append(value)
            else:
                arguments[flag.name] = value
            places[flag.name] = (match.start(), at)
            continue
        if parameter is None:
            raise Invalid(
                f"Unexpected word {shorten_name(match[0])}.",
                hint=_quoting_hint(verb) or f"Usage: {verb.usage}",
                span=(match.start(), len(line.rstrip())),
            )
        if has_flags and match[0] == "--" and _may_end_flags(verb, parameter):
            at, has_flags = match.end(), False  # as in a shell: what follows is no flag
            continue
        if parameter.has_particle(match[0]) and parameter.name not in lists:
            at = match.end()
            if parameter.arg.rest:
                # After its particle a text may be empty, and keeps all but the one space.
                text = line[at:].removeprefix(" ")
                arguments[parameter.name], places[parameter.name] = text, (at, len(line))
                break
            if _WORD.search(line, at) is not None:
                continue
        if parameter.is_text or (parameter.arg.kind == "command" and match[0] == "--"):
            _check_text_start(verb, arguments, line, match.start())
            text = line[match.start() :]
            arguments[parameter.name] = text if parameter.is_text else text.rstrip()
            places[parameter.name] = (match.start(), len(line))
            break
        if parameter.arg.rest:
            # A list of words to the end of the line, with flags anywhere among them.
            lists.setdefault(parameter.name, []).append(match[0])
            places.setdefault(parameter.name, (match.start(), match.end()))
            at = match.end()
            continue
        parameters.pop(0)
        word = _read_word(line, match)
        flag_word = word.text in parameter.arg.flag_words
        name, value = (word.text, True) if flag_word else (parameter.name, word.text)
        arguments[name], places[name] = value, (word.start, word.end)
        at = word.end
    arguments |= {name: tuple(values) for name, values in repeated.items()}
    arguments |= {name: " ".join(words) for name, words in lists.items()}
    return arguments, places


def _quoting_hint(verb: Verb) -> str:
    """Return how a last argument with spaces is typed; "" if it cannot have any."""
    last = verb.positional[-1] if verb.positional else None
    if last is None or not last.arg.may_have_spaces:
        return ""
    return f"A {last.option} with spaces stands in quotes: /{verb.name} 'release plan'."


def _may_end_flags(verb: Verb, waiting: Parameter) -> bool:
    """Return whether `--` ends flags: before the first argument, if it is a word."""
    return waiting is verb.positional[0] and not waiting.arg.rest


def _check_text_start(verb: Verb, given: dict[str, Any], line: str, at: int) -> None:
    """Raise Invalid if `=` stands within a text behind a name that may have spaces.

    The words before it may belong to the name, and nobody knows which was meant.
    """
    text = line[at:].partition("\n")[0]
    found = _EQUALS.search(text)
    name, parameter = verb.positional[0], verb.text
    if found is None or not name.arg.may_have_spaces or parameter is not verb.positional[1]:
        return
    before = f"{given[name.name]} {text[: found.start()].rstrip()}"
    raise Invalid(
        "It is not clear where the text begins.",
        hint=f"A name with spaces stands in quotes: {quote_word(shorten_name(before))} = …"
        " Without =, the text must not have one on its first line; with = before it, it may.",
        span=(at, at + found.end()),
    )


def _parameters_after(verb: Verb, flag: Parameter, waiting: list[Parameter]) -> list[Parameter]:
    """Return the positional parameters that words after a flag can fill."""
    spelling = verb.spellings.get(flag.name)
    if spelling is None:
        return [parameter for parameter in waiting if parameter is not flag]
    called = find_verb(spelling.verb)
    names = {parameter.name for parameter in called.positional} if called else set()
    return [parameter for parameter in waiting if parameter.name in names - {*spelling.arguments}]


def _take_next(verb: Verb, waiting: list[Parameter], word: str) -> Parameter | None:
    """Return the next parameter for a word, after those it cannot be a value of."""
    if waiting and _is_flag(verb, word, waiting[0]):
        return waiting[0]
    while len(waiting) > 1 and not waiting[0].accepts_word(word):
        waiting.pop(0)
    return waiting[0] if waiting else None


def _read_flag(verb: Verb, line: str, word: Word) -> tuple[Parameter, Any, int]:
    name, equals, value = word.text.removeprefix("--").partition("=")
    parameter = verb.typed_flags.get(name)
    if parameter is None:
        raise UnknownFlag(verb, name, (word.start, word.end))
    if parameter.boolean:
        return parameter, (value if equals else True), word.end
    if equals and value[:1] not in ("'", '"'):
        return parameter, value, word.end
    if equals:
        argument = _read_quoted_word(line, word.start + len(name) + 3)
        return parameter, argument.text, argument.end
    match = _WORD.search(line, word.end)
    if match is None:
        raise Invalid(f"--{name} needs a value.", span=(word.start, word.end))
    argument = _read_word(line, match)
    return parameter, argument.text, argument.end


def _is_flag(verb: Verb, word: str, waiting: Parameter | None) -> bool:
    """Return whether a word is a flag.

    If only free text without `=` can follow, `--` is text.
    """
    if not word.startswith("--") or len(word) == 2:
        return False
    is_text_next = waiting is not None and waiting.is_text and not waiting.is_text_after_equals
    return bool(verb.typed_flags) or not is_text_next


def _read_word(line: str, plain: re.Match[str]) -> Word:
    """Return the word at the match `plain`, without its quotes."""
    if plain[0][0] in "\"'":
        return _read_quoted_word(line, plain.start())
    return Word(plain[0], plain.start(), plain.end())


def _read_quoted_word(line: str, start: int) -> Word:
    match = _QUOTED[line[start]].match(line, start)
    if match is None:
        raise Invalid(f"The quote {line[start]} is not closed.", span=(start, len(line)))
    return Word(_ESCAPED.sub(r"\1", match[1]), start, match.end())


def _make_refusal(
    verb: Verb,
    error: ValidationError,
    places: dict[str, tuple[int, int]] | None,
    called: str,
) -> Invalid:
    problems: list[str] = []
    at = None
    for detail in error.errors(include_url=False):
        if detail["loc"] and detail["type"] == "literal_error" and len(detail["loc"]) > 1:
            continue  # a word besides a number: the problem of the number names it
        name = str(detail["loc"][0]) if detail["loc"] else ""
        at = at or (places or {}).get(name)
        problem = describe_validation_error(detail)
        parameter = next(
            (candidate for candidate in verb.parameters if candidate.name == name), None
        )
        if parameter is not None and parameter.arg.words:
            problem = problem.replace(" (got", f" or {_join_or(parameter.arg.words)} (got")
        problems.append(f"{_name_argument(verb, name, places)}: {problem}")
    if places is None:
        parameters = (*verb.positional, *verb.flags.values())
        arguments = ", ".join(f"{p.name}{'' if p.required else '?'}" for p in parameters) or "none"
        words = f"{called or verb.tool or verb.name}: {'; '.join(problems)}."
        return Invalid(words, hint=f"Arguments: {arguments}.")
    return Invalid(f"/{verb.name}: {'; '.join(problems)}.", hint=f"Usage: {verb.usage}", span=at)


def _name_argument(verb: Verb, name: str, places: dict[str, tuple[int, int]] | None) -> str:
    """Name an argument as the caller knows it.

    A flag of a typed line has its dashes.
    """
    parameter = next((candidate for candidate in verb.parameters if candidate.name == name), None)
    if places is None or parameter is None:
        return name
    return f"--{parameter.option}" if parameter.flag else parameter.option


def _describe_parameter(parameter: Parameter) -> str:
    if parameter.choices:
        return _join_or(parameter.choices)
    name = parameter.option.upper()
    return f"{name} ({parameter.help.rstrip('.')})" if parameter.help else name


def _join_or(options: Iterable[str]) -> str:
    *most, last = options
    return f"{', '.join(most)} or {last}" if most else last
