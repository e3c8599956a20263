"""Commands of a shell that run a verb over ssh, for results and refusals."""

from __future__ import annotations

import re
import shlex
from typing import Final

from sshwarma.world.reader import PERSON

_PLAIN: Final = re.compile(r"[\w@%+=:,./ -]*", re.ASCII)
"""Lines whose words a shell passes on as they are."""

_READ_IN_QUOTES: Final = re.compile(r'["\\$`!\n]')
"""Signs that a shell reads also within double quotes."""


def write_ssh_command(verb: str, /, **arguments: object) -> str:
    """Return `ssh HOST VERB …`, with the quotes that a shell takes away.

    The verb's own quotes, around a path with a blank, are for the server: they stand within those
    for the shell.
    """
    return quote_ssh_command(PERSON.name_call(verb, **arguments).removeprefix("/"))


def quote_ssh_command(typed: str) -> str:
    """Return `ssh HOST` and a line, in the quotes of a shell if it needs any."""
    if _PLAIN.fullmatch(typed):
        return f"ssh HOST {typed}"
    if "'" in typed and not _READ_IN_QUOTES.search(typed):
        return f'ssh HOST "{typed}"'
    return f"ssh HOST {shlex.quote(typed)}"
