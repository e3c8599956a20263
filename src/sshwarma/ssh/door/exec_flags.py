"""Flags that only commands over ssh have, such as `--json` and `--room NAME`."""

from __future__ import annotations

import re
from typing import Final

from sshwarma.verbs.help_flag import find_help_topic
from sshwarma.verbs.registry import Verb
from sshwarma.world.errors import Invalid

_QUOTED: Final = r"""(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')"""
_WORD: Final = re.compile(rf"(?:--[\w-]+=)?{_QUOTED}|\S+", re.DOTALL)
DOOR_FLAG: Final = re.compile(
    rf"\s(?:--[\w-]+=)?{_QUOTED}"
    r"|\s--(?:(?P<name>json|stdin)|(?P<flag>room|once)(?:=|\s+)(?P<value>(?!--)\S+))(?=\s|$)",
    re.DOTALL,
)
"""A flag of this door; or a quoted word, whose content is not one."""

_FLAG_WORD: Final = re.compile(r"--(?:json|stdin|(?:room|once)=\S+)")
_FLAGS_WITH_VALUE: Final = {
    "--room": ("ROOM", "look --room workshop"),
    "--once": ("KEY", "say --once build-7 The build has failed."),
}
_FIRST_FLAG: Final = re.compile(r"\s*(?P<flag>--(?:room|once))(?:=?\s*$|\s+--)")
_LAST_FLAG: Final = re.compile(r"\s(?P<flag>--(?:room|once))=?\s*$")


def remove_door_flags(command: str) -> str:
    """Return a command without the flags of this door."""
    return DOOR_FLAG.sub(lambda match: "" if match["name"] or match["flag"] else match[0], command)


def asks_for_help(command: str) -> bool:
    """Return whether a command is a verb and `--help`, for which no input is read."""
    return bool(find_help_topic("/" + remove_door_flags(command).strip().removeprefix("/")))


def find_text_start(command: str, verb: Verb, verb_words: int) -> int:
    """Return the index of `= TEXT` in a command, past the words and flags before it."""
    words_left = verb_words + len(verb.positional) - 1
    is_value = False
    for word in _WORD.finditer(command):
        if is_value:
            is_value = False
        elif word[0] in ("=", "--"):
            return word.start()
        elif word[0].startswith("--"):
            name, equals, _ = word[0].removeprefix("--").partition("=")
            flag = verb.typed_flags.get(name)
            takes_value = name in ("room", "once") or (flag is not None and not flag.boolean)
            is_value = not equals and takes_value
        elif words_left == 0:
            return word.start()
        else:
            words_left -= 1
    return len(command)


def find_text(command: str) -> tuple[int, int]:
    """Return the span of a command between the flags after its verb and at its end.

    One pass over the words: a command may consist of thousands of flags.
    """
    words = list(re.finditer(r"\S+", command))
    first, last = 0, len(words)
    if words and not words[0][0].startswith("-"):
        first = 1
    while (count := _count_flag_words(words, first, last)) > 0:
        first += count
    while last > first:
        if _FLAG_WORD.fullmatch(words[last - 1][0]):
            last -= 1
        elif last - first > 1 and _count_flag_words(words, last - 2, last) == 2:
            last -= 2
        else:
            break
    start = words[first - 1].end() if first else 0
    return start, words[last - 1].end() if last > first else start


def _count_flag_words(words: list[re.Match[str]], first: int, last: int) -> int:
    """Return how many words the flag at `first` has; 0 if that word is not a flag."""
    if first < last and _FLAG_WORD.fullmatch(words[first][0]):
        return 1
    has_value = first + 1 < last and not words[first + 1][0].startswith("--")
    return 2 if has_value and words[first][0] in _FLAGS_WITH_VALUE else 0


def _find_only_flag(text: str, words: int) -> re.Match[str] | None:
    """Return the flag alone behind the words of a verb: `tell eve --once`."""
    last = _LAST_FLAG.search(text)
    return last if last is not None and len(text[: last.start()].split()) <= words else None


def check_flag_values(text: str, words: int | None) -> None:
    """Check that no flag of this door lacks its value.

    Args:
        text: the words of a command, or its free text after `words` words.
        words: None if there is no free text.

    Raises:
        Invalid: naming what it needs.
    """
    if words is None:
        match = _LAST_FLAG.search(text)
    else:
        match = _FIRST_FLAG.match(text) or _find_only_flag(text, words)
    if match is not None:
        value, example = _FLAGS_WITH_VALUE[match["flag"]]
        raise Invalid(f"{match['flag']} needs {value}.", hint=f"Example: ssh HOST {example}")
