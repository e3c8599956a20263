"""The refusal of a name that no verb has, for every door."""

from __future__ import annotations

from collections.abc import Iterable

from sshwarma.common.near_names import find_near_names, suggest_names
from sshwarma.common.shorten import shorten_name
from sshwarma.verbs.registry import VerbGroup, every_verb, find_entry, find_verb, verb_names
from sshwarma.verbs.verb_synonyms import suggest_synonym
from sshwarma.world.errors import NotFound
from sshwarma.world.reader import Reader, next_call
from sshwarma.world.things import Thing


class UnknownVerb(NotFound):
    """A name that no verb has."""


def unknown_verb_error(
    name: str, reader: Reader, span: tuple[int, int] | None = None
) -> UnknownVerb:
    """Return the refusal of a name that no verb has, with what the reader may mean.

    Args:
        name: the name as it was given.
        reader: who gave it, and calls verbs by other names than others.
        span: its place in a typed line.
    """
    bare = name.removeprefix("/").lower()
    hint = suggest_synonym(bare, reader) or suggest_names(_list_near_names(bare, reader))
    entry = find_entry(bare)
    if isinstance(entry, VerbGroup):
        names = [reader.name_verb(verb.name) for verb in entry.verbs]
        if any(names):
            hint = f"It is a group of verbs: {', '.join(filter(None, names))}."
    shown = f"/{shorten_name(bare)}" if reader.is_person else shorten_name(name)
    return UnknownVerb(
        f"Unknown verb {shown}.", hint=hint or next_call("{} lists the verbs.", "help"), span=span
    )


def suggest_own_names(
    error: UnknownVerb, line: str, own_names: Iterable[str], tools: Iterable[Thing] = ()
) -> None:
    """Put the caller's tools, near aliases and equipped commands before other hints."""
    name = line.split(None, 1)[0].removeprefix("/") if line.split() else ""
    tool = next((one for one in tools if name.lower() in (one.name, one.label)), None)
    near = find_near_names(name, own_names)
    if tool is not None:
        error.hints = (next_call("It is a tool: {} calls it.", "run", name=tool.label),)
    elif near:
        error.hints = (suggest_names([f"/{own}" for own in near]),)


def _list_near_names(bare: str, reader: Reader) -> list[str]:
    """List the nearest names of verbs, as the reader calls them."""
    if reader.is_person:
        verb = find_verb(bare)  # mcp_list, as programs call it
        return [
            f"/{near}" for near in ([verb.name] if verb else find_near_names(bare, verb_names()))
        ]
    renamed = find_verb(bare)  # model_on, as API clients called model_enable
    if renamed is not None and not renamed.ssh_only and (name := reader.name_verb(renamed.name)):
        return [name]
    callable_names = (reader.name_verb(verb.name) for verb in every_verb() if not verb.ssh_only)
    return find_near_names(bare, filter(None, callable_names))
