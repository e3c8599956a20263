"""What things may be called, and why a name is refused.

Names of agents, rooms and namespaces are lower-case ASCII: a letter, then letters, digits, `-`
or `_`, 32 at most. That leaves no room for control characters, bidi marks or other scripts'
look-alikes; what remains alike in ASCII (`0` and `o`, `1` and `l`, `rn` and `m`) is compared by
`skeleton`. Data things have a wider alphabet, because `prompt:code-style` and `notes.md` are names.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from sshwarma.world.errors import Invalid

NAME_LENGTH: Final = 32
THING_NAME_LENGTH: Final = 128

NAME: Final = re.compile(rf"[a-z][a-z0-9_-]{{0,{NAME_LENGTH - 1}}}")
THING_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._:-]{{0,{THING_NAME_LENGTH - 1}}}")

RESERVED: Final = frozenset({
    "sshwarma", "system", "room", "me", "all", "everyone", "here", "home", "world", "rooms",
    "agents", "mcps", "internal", "defaults", "toolsets", "skills", "projects", "global",
    "skill", "prompt", "state", "mcp", "admin", "server", "operator", "nobody", "directs",
})  # fmt: skip
"""Names nobody can take: words that commands and the tree already use, and voices of authority."""

DIRECTIONS: Final = {
    "n": "north", "s": "south", "e": "east", "w": "west", "u": "up", "d": "down",
    "ne": "northeast", "nw": "northwest", "se": "southeast", "sw": "southwest",
}  # fmt: skip

OPPOSITES: Final = {
    "north": "south", "east": "west", "up": "down", "in": "out",
    "northeast": "southwest", "northwest": "southeast",
}  # fmt: skip

_ALIKE: Final = str.maketrans({"0": "o", "1": "l", "i": "l", "5": "s", "-": "_"})


def skeleton(name: str) -> str:
    """Equal for two names a reader could take for each other."""
    folded = unicodedata.normalize("NFKC", name).casefold().translate(_ALIKE)
    return folded.replace("rn", "m").replace("vv", "w").replace("cl", "d")


_RESERVED_ALIKE: Final = {skeleton(name): name for name in RESERVED}


def check_name(name: str, what: str) -> str:
    """`name` if an agent, room or namespace may have it.

    Raises:
        Invalid: saying what is wrong with it. `what` is the noun to use: "room", "agent".
    """
    shown = name if name.isprintable() and name.isascii() else ascii(name).strip("'")
    if len(name) > NAME_LENGTH:
        raise Invalid(
            f"A name for {_a(what)} has at most {NAME_LENGTH} characters; this has {len(name)}."
        )
    if not NAME.fullmatch(name):
        raise Invalid(
            f"{shown!s} cannot be the name of {_a(what)}.",
            hint="A name is a lower-case letter, then lower-case letters, digits, - or _.",
        )
    reserved = _RESERVED_ALIKE.get(skeleton(name))
    if reserved is not None:
        alike = "is a reserved name" if name == reserved else f"looks too much like {reserved}"
        raise Invalid(f"{shown} {alike}.", hint="Choose another.")
    return name


def check_thing_name(name: str) -> str:
    """`name` if a data or reference thing may have it.

    Raises:
        Invalid: saying what is wrong with it.
    """
    if not THING_NAME.fullmatch(name):
        shown = name if name.isprintable() and name.isascii() else ascii(name).strip("'")
        raise Invalid(
            f"{shown[:60]} cannot be the name of a thing.",
            hint=f"A name is letters, digits, and . _ : - after the first; at most "
            f"{THING_NAME_LENGTH} characters.",
        )
    return name


def direction(word: str) -> str:
    """The full name of a direction: `n` is north; other names are taken as they are.

    Raises:
        Invalid: if it could not be the name of an exit.
    """
    full = DIRECTIONS.get(word.lower(), word.lower())
    if not NAME.fullmatch(full):
        raise Invalid(
            f"{ascii(word)[1:41]} is not a direction.",
            hint="Use n s e w u d ne nw se sw in out, or a name of letters, digits, - and _.",
        )
    return full


def opposite(full: str) -> str | None:
    """The way back from a direction, if it has a well-known one."""
    reverse = {back: forth for forth, back in OPPOSITES.items()}
    return OPPOSITES.get(full) or reverse.get(full)


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
