"""Names of things: which ones are valid, and why a name is refused.

Names of agents, rooms and namespaces are lower-case ASCII: a letter, then letters, digits, `-` or
`_`, 32 at most. That excludes control characters, bidi marks and look-alikes from other scripts;
look-alikes within ASCII (`0` and `o`, `1` and `l`, `rn` and `m`) are compared by
`confusable_skeleton`. Data things have a wider alphabet, because `prompt:code-style` and `notes.md`
are names.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from sshwarma.common.limits import MAX_NAME_CHARACTERS, MAX_THING_NAME_CHARACTERS
from sshwarma.common.shorten import shorten_name
from sshwarma.world.builtin_containers import BUILTIN_NAMESPACES, DEFAULTS_ID
from sshwarma.world.errors import Invalid

NAME_PATTERN: Final = re.compile(rf"[a-z][a-z0-9_-]{{0,{MAX_NAME_CHARACTERS - 1}}}")
THING_NAME_PATTERN: Final = re.compile(
    rf"[A-Za-z0-9][A-Za-z0-9._:-]{{0,{MAX_THING_NAME_CHARACTERS - 1}}}"
)

RESERVED_NAMES: Final = frozenset({
    "sshwarma", "system", "room", "me", "all", "everyone", "here", "home", "world", "rooms",
    "agents", "mcps", *BUILTIN_NAMESPACES, DEFAULTS_ID, "toolsets", "skills", "projects",
    "skill", "prompt", "state", "mcp", "admin", "server", "operator", "nobody", "directs",
    "agents-in-rooms",
})  # fmt: skip
"""Reserved names: words that commands and the tree already use, and words of authority."""

BUILT_IN_MODEL: Final = "guide"
"""Name of the model that every world has."""

COMMAND_PREFIX: Final = "command:"
"""How the name of a text begins that is a command of people's own."""

TRIGGER_PREFIX: Final = "trigger:"
"""How the name of a text begins that is a script which events of its room start."""

BAG_PREFIXES: Final = ("room", "me", "home")
"""Words that choose a bag, as in `home:NAME`; no name of a thing begins with one and a colon."""

DIRECTION_ABBREVIATIONS: Final = {
    "n": "north", "s": "south", "e": "east", "w": "west", "u": "up", "d": "down",
    "ne": "northeast", "nw": "northwest", "se": "southeast", "sw": "southwest",
}  # fmt: skip

OPPOSITE_DIRECTIONS: Final = {
    "north": "south", "east": "west", "up": "down", "in": "out",
    "northeast": "southwest", "northwest": "southeast",
}  # fmt: skip

_CONFUSABLE_CHARACTERS: Final = str.maketrans({"0": "o", "1": "l", "i": "l", "5": "s", "-": "_"})


def confusable_skeleton(name: str) -> str:
    """Return a form that is equal for two names a reader could confuse."""
    text = unicodedata.normalize("NFKC", name).casefold().translate(_CONFUSABLE_CHARACTERS)
    return text.replace("rn", "m").replace("vv", "w").replace("cl", "d")


_RESERVED_SKELETONS: Final = {confusable_skeleton(name): name for name in RESERVED_NAMES}


def check_name(name: str, kind: str) -> str:
    """Return `name` if an agent, room or namespace may have it.

    Raises:
        Invalid: with the reason. `kind` is the noun to use: "room", "agent".
    """
    printable_name = name if name.isprintable() and name.isascii() else ascii(name).strip("'")
    if len(name) > MAX_NAME_CHARACTERS:
        raise Invalid(
            f"The name of {_add_article(kind)} must have at most {MAX_NAME_CHARACTERS} characters"
            f" (got {len(name)})."
        )
    if not NAME_PATTERN.fullmatch(name):
        raise Invalid(
            f"{printable_name!s} cannot be the name of {_add_article(kind)}.",
            hint="A name is a lower-case letter, then lower-case letters, digits, - or _.",
        )
    reserved = _RESERVED_SKELETONS.get(confusable_skeleton(name))
    if reserved is not None:
        reason = "is a reserved name" if name == reserved else f"looks too much like {reserved}"
        raise Invalid(f"{printable_name} {reason}.", hint="Choose another.")
    return name


def check_person_name(name: str) -> str:
    """Return `name` if a person may have it.

    Raises:
        Invalid: as `check_name`, and if it is, or looks like, that of the model that is built in:
            a world that is new has no such agent yet.
    """
    check_name(name, "agent")
    if confusable_skeleton(name) == confusable_skeleton(BUILT_IN_MODEL):
        raise Invalid(
            f"{name} cannot be a person's name: {BUILT_IN_MODEL} is the model that is built in.",
            hint="Choose another.",
        )
    return name


def check_thing_name(name: str) -> str:
    """Return `name` if a data or reference thing may have it.

    Raises:
        Invalid: with the reason.
    """
    if not THING_NAME_PATTERN.fullmatch(name):
        printable_name = name if name.isprintable() and name.isascii() else ascii(name).strip("'")
        raise Invalid(
            f"{shorten_name(printable_name)} cannot be the name of a thing.",
            hint=f"A name is a letter or digit, then letters, digits, . _ : or -; at most "
            f"{MAX_THING_NAME_CHARACTERS} characters.",
        )
    prefix, colon, _ = name.partition(":")
    if colon and prefix in BAG_PREFIXES:
        raise Invalid(
            f"{shorten_name(name)} cannot be the name of a thing: {prefix}: is a bag.",
            hint="Leave the prefix out.",
        )
    return name


def split_bag_name(name: str) -> tuple[str, str]:
    """Split the typed name of a thing into its bag and the bare name.

    The bag is `room` if the name has no prefix.
    """
    prefix, colon, bare = name.partition(":")
    return (prefix, bare) if colon and prefix in BAG_PREFIXES else ("room", name)


def parse_direction(word: str) -> str:
    """Return a direction's full name: `n` is north; other names stay as they are.

    Raises:
        Invalid: if it is not a valid exit name.
    """
    full = DIRECTION_ABBREVIATIONS.get(word.lower(), word.lower())
    if not NAME_PATTERN.fullmatch(full):
        raise Invalid(
            f"{shorten_name(word)!a} is not a direction.",
            hint="Use n s e w u d ne nw se sw in out, or a name of letters, digits, - and _.",
        )
    return full


def opposite_direction(full: str) -> str | None:
    """Return the opposite direction, for the well-known ones."""
    reverse = {back: forth for forth, back in OPPOSITE_DIRECTIONS.items()}
    return OPPOSITE_DIRECTIONS.get(full) or reverse.get(full)


def _add_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
