"""Registry of verbs: `@verb` and `group` declare them; doors find them by name.

The name of a verb is one word, `look`, or the word of its group and its action, `mcp add`. An
action may be two words, of which several actions share the first: `mem project get`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar, Unpack

from sshwarma.verbs.docstring import parse_docstring
from sshwarma.verbs.rights import ArgumentRight, DataRight, MemberRight
from sshwarma.verbs.verb import Parameter, Run, Spelling, Verb, quote_word
from sshwarma.verbs.verb_options import VerbOptions
from sshwarma.world.access import required_scope, widest_scope
from sshwarma.world.bootstrap import BuiltinToolSpec
from sshwarma.world.leave_out import declare_policies
from sshwarma.world.reader import VerbNames, register_verb_names

__all__ = [
    "SECTIONS",
    "Parameter",
    "Spelling",
    "Verb",
    "VerbGroup",
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


@dataclass(frozen=True)
class VerbGroup:
    """Verbs that share their first word: `/mcp add`, `/mcp list`.

    The bare word runs `default`; without a default an action is required. With
    `default_takes_words`, a second word that is not an action is the first argument of the default:
    `/history 50` is `/history show 50`.

    With `name_action`, a second word that is a name, and no action, is the first argument of that
    action: `/history plan` is `/history of plan`.

    `spellings` are other second words that people may type, with the name of the verb of each. ""
    is for the bare word, and for words that are not an action, which are arguments of that verb.
    `first_words` describe the first words of actions of two words.
    """

    name: str
    section: str
    summary: str
    detail: str
    default: str = ""
    default_takes_words: bool = False
    name_action: str = ""
    aliases: tuple[str, ...] = ()
    spellings: Mapping[str, str] = field(default_factory=dict)
    first_words: Mapping[str, str] = field(default_factory=dict)
    actions: dict[str, Verb] = field(default_factory=dict)

    @property
    def verbs(self) -> tuple[Verb, ...]:
        """The verbs of the group, in the order of their declaration; by first words."""
        order = list(self.list_words())
        actions = sorted(self.actions.items(), key=lambda one: order.index(one[0].split()[0]))
        return tuple(action_verb for _, action_verb in actions)

    def find(self, action: str) -> Verb | None:
        """Return the verb of an action, in any case; None if the action does not exist."""
        return self.actions.get(action.lower())

    def list_words(self, first: str = "") -> dict[str, str]:
        """Return the words that can follow the group's, or the first word of its actions.

        Each has the summary of its action, or its description as a first word.
        """
        words: dict[str, str] = {}
        for action, action_verb in self.actions.items():
            head, _, tail = action.partition(" ")
            if not first:
                words[head] = self.first_words.get(head, "") if tail else action_verb.summary
            elif head == first.lower() and tail:
                words[tail] = action_verb.summary
        return words

    def default_for(self, word: str | None) -> Verb | None:
        """Return the verb that takes a word which is not an action; else None.

        The default takes a flag, no word (None), and, with `default_takes_words`, any word but a
        name that another action takes.
        """
        if word is not None and self.name_action and word[:1].isalpha():
            return self.find(self.name_action)
        takes = word is None or word.startswith("--") or self.default_takes_words
        return self.find(self.default) or self.find_spelled("") if takes else None

    def find_spelled(self, word: str) -> Verb | None:
        """Return the verb that people may type by this other word; else None."""
        name = self.spellings.get(word.lower())
        return find_verb(name) if name is not None else None

    def find_typed(self, word: str) -> Verb | None:
        """Return the verb of an action or of another word for it; else None."""
        return self.find(word) or self.find_spelled(word)

    def verb(self, action: str, **options: Unpack[VerbOptions]) -> Callable[[F], F]:
        """Declare the verb of one action.

        Raises:
            ValueError: if the action is taken, or the docstring describes a parameter that the
                function does not have.
        """
        if action in self.actions:
            raise ValueError(f"two verbs are called {self.name} {action}")

        def declare(run: F) -> F:
            self.actions[action] = _make_verb(f"{self.name} {action}", self.section, run, options)
            return run

        return declare


_names: dict[str, Verb | VerbGroup] = {}
"""Verbs of one word and groups by first word, their aliases included."""


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
        new_verb = _make_verb(name, section, run, options)
        for word in (name, *new_verb.aliases):
            _claim(word, new_verb)
        return run

    return declare


def group(  # noqa: PLR0913 - one keyword for each part of a group
    name: str,
    *,
    section: str,
    doc: str,
    default: str = "",
    default_takes_words: bool = False,
    name_action: str = "",
    aliases: tuple[str, ...] = (),
    spellings: Mapping[str, str] | None = None,
    first_words: Mapping[str, str] | None = None,
) -> VerbGroup:
    """Declare a group: verbs that share their first word.

    `VerbGroup.verb` declares each of them.

    Args:
        name: the first word.
        section: the section of /help.
        doc: its help: a summary line, then text about the whole group.
        default: the action of the bare word; "" requires an action.
        default_takes_words: whether a second word that is not an action is the default's first
            argument; otherwise it is refused.
        name_action: the action that takes a second word which is a name, and no action.
        aliases: other first words for it.
        spellings: other second words that people may type, with the name of the verb of each.
        first_words: descriptions of the first words of actions of two words.

    Raises:
        ValueError: if the name is taken or the section does not exist.
    """
    _check_section(section)
    text = parse_docstring(doc)
    new_group = VerbGroup(
        name=name,
        section=section,
        summary=text.summary,
        detail=text.detail,
        default=default,
        default_takes_words=default_takes_words,
        name_action=name_action,
        aliases=aliases,
        spellings=spellings or {},
        first_words=first_words or {},
    )
    for word in (name, *aliases):
        _claim(word, new_group)
    return new_group


def every_entry() -> Iterator[Verb | VerbGroup]:
    """Yield the verbs of one word and the groups, by section and name."""
    entries = {entry.name: entry for entry in _names.values()}.values()
    yield from sorted(entries, key=lambda known: (SECTIONS.index(known.section), known.name))


def every_verb() -> Iterator[Verb]:
    """Yield all verbs, by section and first word; those of a group as declared."""
    for entry in every_entry():
        if isinstance(entry, VerbGroup):
            yield from entry.verbs
        else:
            yield entry


def find_entry(word: str) -> Verb | VerbGroup | None:
    """Find the verb or group of a first word, with or without its slash, in any case."""
    return _names.get(word.removeprefix("/").lower())


def find_verb(name: str) -> Verb | None:
    """Find a verb by name or alias, with or without its slash, in any case.

    Accepts `look`, `mcp add`, `mcp_add`, and other spellings, such as `model on`; the bare word of
    a group is its default verb.
    """
    words = name.removeprefix("/").lower().replace("_", " ").split()
    if not words or len(words) > 3:
        return None
    entry = _names.get(words[0])
    if isinstance(entry, VerbGroup):
        if len(words) == 1:
            return entry.find(entry.default)
        return entry.find_typed(" ".join(words[1:]))
    return entry if len(words) == 1 else None


def verb_names() -> list[str]:
    """List every first word: names and aliases of verbs and groups."""
    return sorted(_names)


def tool_specs() -> list[BuiltinToolSpec]:
    """List the tool specifications of all verbs that are tools."""
    return [spec for tool_verb in every_verb() if (spec := tool_verb.tool_spec) is not None]


def write_line(verb: Verb, arguments: Mapping[str, object]) -> str:
    """Write the line that a person types for a call of a verb.

    An example: `/history 5 --before 22`. Free text comes last, because it takes the rest of the
    line.
    """
    entry = find_entry(verb.group) if verb.group else None
    is_short = (
        isinstance(entry, VerbGroup)
        and entry.default == verb.action
        and (not arguments or entry.default_takes_words)
    )
    words = [f"/{verb.group if is_short else verb.name}"]
    plain = [parameter for parameter in verb.positional if not parameter.is_text]
    free = [parameter for parameter in verb.positional if parameter.is_text]
    for parameter in (*plain, *verb.flags.values(), *free):
        value = arguments.get(parameter.name)
        if value is None or value is False:
            continue
        for one in value if isinstance(value, tuple) else (value,):
            if parameter.flag:
                words.append(f"--{parameter.option}")
            elif parameter.arg.particle:
                words.append(parameter.arg.particle)
            if not parameter.boolean:
                words.append(str(one) if parameter.arg.rest else quote_word(str(one)))
    return " ".join(words)


def _check_declaration(declared: Verb) -> None:
    """Raise unless a verb's declaration names its own parameters only.

    Raises:
        ValueError: if it does not, if a verb that needs ssh is a tool, or if `leave_out` is no
            policy.
    """
    declare_policies(declared.leave_out)
    argument_rules = [
        rule for rule in declared.also_needs if not isinstance(rule, (DataRight, MemberRight))
    ]
    named = {
        *declared.docstring.arguments,
        *declared.docstring.model_arguments,
        *(rule.argument for rule in argument_rules),
        *(name for names in declared.excludes.items() for name in (names[0], *names[1])),
        *declared.needs_one_of,
        *declared.rarely_used,
        *declared.private_with,
    }
    unknown = named - {parameter.name for parameter in declared.signature}
    if declared.ssh_only and declared.tool:
        raise ValueError(f"{declared.name} works only over ssh and cannot be a tool")
    if unknown:
        raise ValueError(f"{declared.name} has no parameter {', '.join(sorted(unknown))}")


def _make_verb(name: str, section: str, run: Run, options: VerbOptions) -> Verb:
    tool = options.get("tool", True)
    needs = options.get("needs")
    group_name, _, action = name.partition(" ")
    scope = options.get("scope") or required_scope(needs)
    also_needs = options.get("also_needs", ())
    change_scopes = [
        required_scope(rule.right)
        for rule in also_needs
        if isinstance(rule, ArgumentRight) and rule.is_change
    ]
    tool_name = (name.replace(" ", "_") if tool is True else tool) or None
    new_verb = Verb(
        name=name,
        run=run,
        section=section,
        group=group_name if action else "",
        needs=needs,
        also_needs=also_needs,
        aliases=options.get("aliases", ()),
        spellings=options.get("spellings", {}),
        excludes=options.get("excludes", {}),
        needs_one_of=options.get("needs_one_of", ()),
        rarely_used=options.get("rarely_used", ()),
        covered_by=options.get("covered_by", ""),
        private_with=options.get("private_with", ()),
        examples=options["examples"],
        tool=tool_name,
        mcp_tool=options.get("mcp_tool") or tool_name,
        default=options.get("default", False),
        namespace=options.get("namespace", "sshwarma"),
        moves=options.get("moves", False),
        scope=scope,
        change_scope=options.get("change_scope", widest_scope(scope, *change_scopes)),
        aside=options.get("aside", False),
        ssh_only=options.get("ssh_only", False),
        in_console=options.get("in_console", False),
        works_at_terminals=options.get("works_at_terminals", False),
        takes_bytes=options.get("takes_bytes", False),
        adds_piped_text=options.get("adds_piped_text", True),
        takes_exact_text=options.get("takes_exact_text", False),
        text_source=options.get("text_source", ""),
        needs_approval=options.get("needs_approval", False),
        leave_out=options.get("leave_out", ""),
        times_out_itself=options.get("times_out_itself", False),
    )
    _check_declaration(new_verb)
    register_verb_names(
        name,
        VerbNames(
            label=f"{new_verb.namespace}:{new_verb.tool}" if new_verb.tool else "",
            tool=new_verb.tool or "",
            mcp_tool=new_verb.mcp_tool or "",
            path="" if new_verb.ssh_only else new_verb.path,
            write_line=partial(write_line, new_verb),
        ),
    )
    return new_verb


def _claim(word: str, entry: Verb | VerbGroup) -> None:
    if word in _names:
        raise ValueError(f"two verbs are called {word}")
    _names[word] = entry


def _check_section(section: str) -> None:
    if section not in SECTIONS:
        raise ValueError(f"{section!r} is not a section of the help")
