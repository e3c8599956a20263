"""The registry: what `@verb` and `group` declare, by name.

A verb is named by one word, `look`, or by the word of its group and its action, `mcp add`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Required, TypedDict, TypeVar, Unpack

from sshwarma.verbs.docstring import parse_docstring
from sshwarma.verbs.verb import Parameter, Run, Verb
from sshwarma.world.access import Right, TokenScope, required_scope
from sshwarma.world.bootstrap import BuiltinToolSpec

__all__ = [
    "SECTIONS",
    "Parameter",
    "Verb",
    "VerbGroup",
    "VerbOptions",
    "every_entry",
    "every_verb",
    "find_entry",
    "find_verb",
    "group",
    "tool_specs",
    "verb",
    "verb_names",
]

F = TypeVar("F", bound=Run)

SECTIONS: Final = (
    "Looking", "Moving", "Talking", "Models", "Remembering", "Inventory", "Tools", "Building",
    "Access", "Yourself", "Upkeep",
)  # fmt: skip
"""Sections of the help, in the order /help shows them."""


class VerbOptions(TypedDict, total=False):
    """What a declaration says beside the name.

    Attributes:
        examples: lines that are shown as examples; each must parse.
        needs: the right to have in the room; nothing is needed if left out.
        aliases: other first words for it.
        tool: False for what only people do, or the name models know it by where that differs.
        default: whether new rooms have it equipped as a tool.
        namespace: the namespace of the tool, `sshwarma` if left out.
        moves: whether it takes a model out of its room.
        scope: how far a token must go, where the right does not tell: what needs no more than to
            enter a room counts as looking.
        aside: whether a terminal carries it out at once, beside the line that it works on.
    """

    examples: Required[tuple[str, ...]]
    needs: Right | None
    aliases: tuple[str, ...]
    tool: str | bool
    default: bool
    namespace: str
    moves: bool
    scope: TokenScope | None
    aside: bool


@dataclass(frozen=True)
class VerbGroup:
    """Verbs that share their first word: `/mcp add`, `/mcp list`. The bare word does `default`;
    without a default it must be followed by an action. With `default_takes_words`, a second word
    that is no action is the first argument of the default: `/history 50` is `/history show 50`."""

    name: str
    section: str
    summary: str
    detail: str
    default: str = ""
    default_takes_words: bool = False
    aliases: tuple[str, ...] = ()
    actions: dict[str, Verb] = field(default_factory=dict)

    @property
    def verbs(self) -> tuple[Verb, ...]:
        """Its verbs, in the order they were declared."""
        return tuple(self.actions.values())

    def find(self, action: str) -> Verb | None:
        """The verb of that action, in any case."""
        return self.actions.get(action.lower())

    def default_for(self, word: str | None) -> Verb | None:
        """The default verb, if it can take that word, which is not an action: a flag, no word, or
        an argument of the default."""
        takes = word is None or word.startswith("--") or self.default_takes_words
        return self.find(self.default) if takes else None

    def verb(self, action: str, **options: Unpack[VerbOptions]) -> Callable[[F], F]:
        """Declare the verb of one action.

        Raises:
            ValueError: if the action is taken, or the docstring describes a parameter that the
                function does not have.
        """
        if action in self.actions:
            raise ValueError(f"two verbs are called {self.name} {action}")

        def declare(run: F) -> F:
            self.actions[action] = _declared(f"{self.name} {action}", self.section, run, options)
            return run

        return declare


_names: dict[str, Verb | VerbGroup] = {}
"""Every first word: verbs of one word, groups, and the aliases of both."""


def verb(name: str, *, section: str, **options: Unpack[VerbOptions]) -> Callable[[F], F]:
    """Declare a verb of one word, in a section of /help.

    The function takes the caller, then the arguments: positional ones in the order they are typed,
    keyword-only ones as `--flags`. Its docstring is the help: a summary line, then text, then a
    section `Args:` with every parameter.

    Raises:
        ValueError: if the name is taken, the section does not exist, or the docstring describes a
            parameter that the function does not have.
    """
    _check_section(section)

    def declare(run: F) -> F:
        declared = _declared(name, section, run, options)
        for word in (name, *declared.aliases):
            _claim(word, declared)
        return run

    return declare


def group(
    name: str,
    *,
    section: str,
    doc: str,
    default: str = "",
    default_takes_words: bool = False,
    aliases: tuple[str, ...] = (),
) -> VerbGroup:
    """Declare verbs that share their first word; `VerbGroup.verb` declares each of them.

    Args:
        name: the first word.
        section: the section of /help it stands in.
        doc: its help: a summary line, then text that concerns the whole family.
        default: the action of the bare word; without one it must be followed by an action.
        default_takes_words: whether a second word that is no action is the default's first
            argument; otherwise it is refused.
        aliases: other first words for it.

    Raises:
        ValueError: if the name is taken or the section does not exist.
    """
    _check_section(section)
    text = parse_docstring(doc)
    declared = VerbGroup(
        name=name,
        section=section,
        summary=text.summary,
        detail=text.detail,
        default=default,
        default_takes_words=default_takes_words,
        aliases=aliases,
    )
    for word in (name, *aliases):
        _claim(word, declared)
    return declared


def every_entry() -> Iterator[Verb | VerbGroup]:
    """What can be typed first: verbs of one word and groups, by section and name."""
    entries = {entry.name: entry for entry in _names.values()}.values()
    yield from sorted(entries, key=lambda known: (SECTIONS.index(known.section), known.name))


def every_verb() -> Iterator[Verb]:
    """All verbs, by section and first word; those of a group in the order they were declared."""
    for entry in every_entry():
        if isinstance(entry, VerbGroup):
            yield from entry.verbs
        else:
            yield entry


def find_entry(word: str) -> Verb | VerbGroup | None:
    """What a first word stands for, with or without its slash, in any case."""
    return _names.get(word.removeprefix("/").lower())


def find_verb(name: str) -> Verb | None:
    """The verb of that name or alias, with or without its slash, in any case: `look`, `mcp add`,
    or `mcp_add`. The bare word of a group is its default."""
    words = name.removeprefix("/").lower().replace("_", " ").split()
    if not words or len(words) > 2:
        return None
    entry = _names.get(words[0])
    if isinstance(entry, VerbGroup):
        return entry.find(words[1] if len(words) == 2 else entry.default)
    return entry if len(words) == 1 else None


def verb_names() -> list[str]:
    """Every first word: names and aliases of verbs and groups."""
    return sorted(_names)


def tool_specs() -> list[BuiltinToolSpec]:
    """The tools the verbs become."""
    return [spec for known in every_verb() if (spec := known.tool_spec) is not None]


def _declared(name: str, section: str, run: Run, options: VerbOptions) -> Verb:
    tool = options.get("tool", True)
    needs = options.get("needs")
    first, _, second = name.partition(" ")
    declared = Verb(
        name=name,
        run=run,
        section=section,
        group=first if second else "",
        needs=needs,
        aliases=options.get("aliases", ()),
        examples=options["examples"],
        tool=(name.replace(" ", "_") if tool is True else tool) or None,
        default=options.get("default", False),
        namespace=options.get("namespace", "sshwarma"),
        moves=options.get("moves", False),
        scope=options.get("scope") or required_scope(needs),
        aside=options.get("aside", False),
    )
    unknown = declared.docstring.arguments.keys() - {known.name for known in declared.signature}
    if unknown:
        raise ValueError(f"{name} has no parameter {', '.join(sorted(unknown))}")
    return declared


def _claim(word: str, entry: Verb | VerbGroup) -> None:
    if word in _names:
        raise ValueError(f"two verbs are called {word}")
    _names[word] = entry


def _check_section(section: str) -> None:
    if section not in SECTIONS:
        raise ValueError(f"{section!r} is not a section of the help")
