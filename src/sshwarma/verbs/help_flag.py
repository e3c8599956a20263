"""The flag `--help`, which no verb declares: the line asks for help."""

from __future__ import annotations

from sshwarma.verbs.registry import VerbGroup, find_entry


def find_help_topic(line: str) -> str:
    """Return the topic that a line such as `/gc purge --help` asks for; "" if none.

    A text that is `--help` and nothing else is taken for a question, too.
    """
    name, *words = line.split(None, 4)
    if not words or words[-1] != "--help" or not name.startswith("/"):
        return ""
    entry = find_entry(name)
    if isinstance(entry, VerbGroup):
        action = " ".join(words[:-1]).lower()
        if not action or entry.list_words(action):
            return f"{entry.name} {action}".strip()
        found = entry.find(action)
    else:
        found = entry if len(words) == 1 else None
    return found.name if found is not None else ""
