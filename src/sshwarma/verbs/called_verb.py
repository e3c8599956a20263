"""The verb that a typed line calls: its first words."""

from __future__ import annotations

import re
from typing import Final

from sshwarma.common.near_names import find_near_names, suggest_names
from sshwarma.common.shorten import shorten_name
from sshwarma.verbs.registry import Verb, VerbGroup, find_entry
from sshwarma.verbs.unknown_verb import unknown_verb_error
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.reader import PERSON, Hint, next_call

_WORD: Final = re.compile(r"\S+")


def split_verb(line: str) -> tuple[Verb, int]:
    """Return the verb that a line begins with, and the index after its name.

    Raises:
        UnknownVerb: if no verb has that name; the hint lists the nearest names.
        Invalid: if a group needs an action; the message lists its actions.
    """
    match = _WORD.match(line)
    name = match[0] if match else ""
    entry = find_entry(name)
    if match is None or entry is None:
        raise unknown_verb_error(name, PERSON, span=(0, len(name)))
    if isinstance(entry, Verb):
        return entry, match.end()
    return _split_action(entry, line, match.end())


def _split_action(group: VerbGroup, line: str, start: int) -> tuple[Verb, int]:
    match = _WORD.search(line, start)
    verb = group.find_typed(match[0]) if match is not None else None
    if match is not None and group.list_words(match[0]):
        return _split_second_word(group, match, line)
    if verb is not None and match is not None:
        return verb, match.end()
    known = [*group.list_words(), *filter(None, group.spellings)]
    near_names = find_near_names(match[0].lower(), known) if match is not None else []
    if match is not None:  # the second word of an action of two
        near_names += [name for name in group.actions if name.split()[1:] == [match[0].lower()]]
    if match is not None and near_names and match[0].isalpha():
        raise _unknown_action_error(group, match, near_names)
    default = group.default_for(match[0] if match is not None else None)
    if default is not None:
        return default, start
    actions = ", ".join(group.list_words())
    if match is None or match[0].startswith("--"):
        raise Invalid(
            f"/{group.name} needs an action: {actions}.",
            hint=next_call("{} describes them.", "help", topic=group.name),
            span=(len(line.rstrip()),) * 2,
        )
    raise _unknown_action_error(group, match, near_names)


def _split_second_word(group: VerbGroup, first: re.Match[str], line: str) -> tuple[Verb, int]:
    """Return the verb of an action of two words, of which `first` is the first."""
    match = _WORD.search(line, first.end())
    verb = group.find_typed(f"{first[0]} {match[0]}") if match is not None else None
    if verb is not None and match is not None:
        return verb, match.end()
    bare = group.find_spelled(first[0])
    if bare is not None and (match is None or match[0].startswith("--")):
        return bare, first.end()
    name = f"{group.name} {first[0].lower()}"
    words = group.list_words(first[0])
    if match is None:
        raise Invalid(
            f"/{name} needs an action: {', '.join(words)}.",
            hint=next_call("{} describes them.", "help", topic=group.name),
            span=(len(line.rstrip()),) * 2,
        )
    near_names = find_near_names(match[0].lower(), list(words))
    raise _unknown_action_error(group, match, near_names, first[0].lower())


def _unknown_action_error(
    group: VerbGroup, word: re.Match[str], near: list[str], first: str = ""
) -> Invalid:
    """Return the refusal of a word that is not an action, with the nearest ones.

    Without near ones, a verb of that name is named before the actions. `first` is the first word of
    the action, if it is the second that is wrong.
    """
    name = f"{group.name} {first}".rstrip()
    hint: Hint = suggest_names([f"/{name} {action}" for action in near])
    if not hint:
        actions = f"/{name} has {', '.join(group.list_words(first))}."
        other = find_entry(word[0].lower()) if not first else None
        hint = actions if other is None else next_call(f"There is {{}}. {actions}", other.name)
    return Invalid(
        f"Unknown action {shorten_name(word[0])} of /{name}.", hint=hint, span=word.span()
    )


def is_talk(line: str) -> bool:
    """Return whether a line is said: it begins with no slash, or with two."""
    return not line.startswith("/") or line.startswith("//")


def find_typed(line: str) -> tuple[Verb, int] | None:
    """Return the same as `split_verb`, or None if the line begins with no verb."""
    try:
        return split_verb(line)
    except (NotFound, Invalid):
        return None
