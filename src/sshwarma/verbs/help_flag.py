"""The flags `--help` and `-h`, which no verb declares: the line asks for help."""

from __future__ import annotations

from typing import Final

from sshwarma.verbs.called_verb import find_typed
from sshwarma.verbs.registry import Verb, VerbGroup, find_entry

HELP_FLAG: Final = "--help"
SHORT_HELP_FLAG: Final = "-h"


def find_help_topic(line: str) -> str:
    """Return the topic that a line such as `/gc purge --help` asks for; "" if none.

    A text that is `--help` or `-h` and nothing else is taken for a question, too.
    """
    before, _, flag = line.rstrip().rpartition(" ")
    if flag not in (HELP_FLAG, SHORT_HELP_FLAG) or not line.startswith("/"):
        return ""
    name, *words = before.split(None, 3)
    entry = find_entry(name)
    if isinstance(entry, VerbGroup):
        action = " ".join(words).lower()
        if not action or entry.list_words(action):
            return f"{entry.name} {action}".strip()
        found = entry.find(action)
    else:
        found = entry if not words else None
    if found is None and flag == HELP_FLAG:
        found = _find_asked(before)
    return found.name if found is not None else ""


def _find_asked(line: str) -> Verb | None:
    """Return the verb of a line that may end with a flag; None if that were its text."""
    typed = find_typed(line)
    if typed is None:
        return None
    verb, start = typed
    if any(one.arg.kind == "command" for one in verb.positional):
        return None
    given = line[start:].split()
    is_text = verb.text is not None and not verb.has_text_after_equals
    return None if is_text or "=" in given or "--" in given else verb
