"""Escaping of text for terminals: control characters are shown, without effect.

All text from people, models and tools passes `escape_controls` before it reaches a screen. Its
output holds no control, format, surrogate or line-separator character, except a zero-width joiner
inside an emoji sequence.
"""

from __future__ import annotations

import re
from typing import Final

from wcwidth import iter_graphemes

from sshwarma.common.visible_nul import VISIBLE_NUL
from sshwarma.terminal.width import MAX_COMBINING_MARKS, cluster_width

TAB_SPACES: Final = " " * 4

_JOINER: Final = "\u200d"
_MAX_JOINERS: Final = 4  # the longest emoji in use (a kiss with two skin tones) has three joiners

# Categories Cc, Cf, Cs, Zl and Zp as of Unicode 17, written out because reading them from
# unicodedata costs 150 ms at import; tests/terminal/test_escape.py compares the two. Also the
# characters of other categories that have no width or carry hidden text: Hangul fillers, the
# combining grapheme joiner, Mongolian and plane-14 variation selectors, noncharacters.
_UNSAFE_CHARACTERS: Final = (
    "\x00-\x1f\x7f-\x9f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"
    "\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\uffa0\ufe00-\ufe0e\ufffe\uffff"
    "\U000e0000-\U000e0fff"
)
_EMOJI: Final = "\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff"
_UNSAFE: Final = re.compile(
    f"[{_UNSAFE_CHARACTERS}]|(?<![{_EMOJI}\ufe0f]){_JOINER}|{_JOINER}(?![{_EMOJI}])"
)


def escape_controls(text: str) -> str:
    """Return the text with control characters made visible: `^[`, `^?`, `<U+202E>`.

    A tab becomes four spaces. At most MAX_COMBINING_MARKS combining marks stay on a base character;
    the others are dropped. All other characters are kept; safe text is returned unchanged.
    """
    if text.isascii():
        # str.isprintable costs a tenth of a regex search and is exact for ASCII.
        return text if text.isprintable() else _UNSAFE.sub(_show_character, text)
    if _UNSAFE.search(text):
        text = _UNSAFE.sub(_show_character, text)
    # Not `split_clusters`: it splits long clusters, so that their length would be hidden.
    if any(len(cluster) > MAX_COMBINING_MARKS for cluster in iter_graphemes(text)):
        text = "".join(map(_trim_cluster, iter_graphemes(text)))
    return text


def escape_lines(text: str) -> str:
    """Escape each line of a text for readers without a terminal; newlines stay."""
    return "\n".join(map(escape_controls, text.split("\n")))


def _show_character(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    if char == "\t":
        return TAB_SPACES
    if char == "\0":
        return VISIBLE_NUL
    if code < 0x20:
        return "^" + chr(code + 0x40)
    if code == 0x7F:
        return "^?"
    return f"<U+{code:04X}>"


def _trim_cluster(cluster: str) -> str:
    """Limit a cluster's combining marks and joined emoji."""
    if len(cluster) <= MAX_COMBINING_MARKS:
        return cluster
    chars: list[str] = []
    marks = joins = 0
    for char in cluster:
        if char == _JOINER:
            joins += 1
            if joins > _MAX_JOINERS:
                break
        elif cluster_width(char) == 0:
            marks += 1
            if marks > MAX_COMBINING_MARKS:
                continue
        else:
            marks = 0
        chars.append(char)
    # A joiner at the end would join with the next text drawn.
    return "".join(chars).rstrip(_JOINER)
