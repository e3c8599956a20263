"""Text that tries to act on the terminal of its reader.

`PAYLOADS` is a list of (name, text). A payload may be put into a message, a name, a description,
a tool result, a model's output; wherever it is shown, `is_harmless` must hold for the bytes.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

PAYLOADS: Final[list[tuple[str, str]]] = [
    ("osc 52 writes the clipboard", "\x1b]52;c;cm0gLXJmIH4=\x07"),
    ("osc 52 reads the clipboard", "\x1b]52;c;?\x07"),
    ("osc 0 sets the title", "\x1b]0;pwned\x07"),
    ("osc 2 ended by ST", "\x1b]2;pwned\x1b\\"),
    ("osc 8 hides a link", "\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\"),
    ("osc 4 changes the palette", "\x1b]4;1;rgb:00/00/00\x07"),
    ("osc 9 notifies", "\x1b]9;you have mail\x07"),
    ("osc 1337 sends a file", "\x1b]1337;File=inline=1:AAAA\x07"),
    ("osc never ended", "\x1b]0;all that follows"),
    ("dcs", '\x1bP$q"p\x1b\\'),
    ("dcs sixel", "\x1bPq#0;2;0;0;0~~\x1b\\"),
    ("apc", "\x1b_Gf=100;AAAA\x1b\\"),
    ("pm", "\x1b^private\x1b\\"),
    ("sos", "\x1bXstring\x1b\\"),
    ("csi colour that leaks", "\x1b[31;47mred"),
    ("csi conceal", "\x1b[8mhidden"),
    ("csi cursor up and erase", "\x1b[5A\x1b[2K"),
    ("csi clear screen", "\x1b[2J\x1b[H\x1b[3J"),
    ("csi scroll region", "\x1b[1;2r"),
    ("csi alternate screen", "\x1b[?1049h"),
    ("csi mouse on", "\x1b[?1000h\x1b[?1006h"),
    ("csi bracketed paste off", "\x1b[?2004l"),
    ("csi ends a paste", "\x1b[201~/quit\r"),
    ("csi hides the cursor", "\x1b[?25l"),
    ("csi wrap off", "\x1b[?7l"),
    ("csi resizes the window", "\x1b[8;10;10t"),
    ("csi reports the title", "\x1b[21t"),
    ("csi device attributes", "\x1b[c\x1b[>c\x1b[=c"),
    ("csi status report", "\x1b[5n\x1b[6n"),
    ("csi media copy", "\x1b[5i"),
    ("decaln", "\x1b#8"),
    ("reset", "\x1bc"),
    ("charset", "\x1b(0lqqk\x0e"),
    ("enq", "\x05"),
    ("c1 csi", "\x9b31m"),
    ("c1 osc", "\x9d0;pwned\x9c"),
    ("c1 dcs", "\x90q\x9c"),
    ("c1 nel", "a\x85b"),
    ("utf-8 bytes of c1 read as latin-1", "\xc2\x9b31m"),
    ("bell", "\x07"),
    ("nul", "a\x00b"),
    ("delete", "a\x7fb"),
    ("backspaces", "safe\x08\x08\x08\x08evil"),
    ("carriage return", "friend said\rfoe said   "),
    ("line feed", "one\nsystem: two"),
    ("vertical tab and form feed", "a\x0bb\x0cc"),
    ("tab", "a\tb"),
    ("shift out", "\x0eabc\x0f"),
    ("bidi override", "\u202eevil\u202c"),
    ("bidi embedding", "\u202bx\u202ay\u202d"),
    ("bidi isolate", "\u2066x\u2067y\u2068z\u2069"),
    ("direction marks", "a\u200eb\u200fc\u061cd"),
    ("tag characters", "hi\U000e0001\U000e0069\U000e0067\U000e006e\U000e007f"),
    ("zero width space", "al\u200bice"),
    ("zero width joiner in a word", "al\u200dice"),
    ("zero width non-joiner", "al\u200cice"),
    ("word joiner", "al\u2060ice"),
    ("byte order mark", "\ufeffalice"),
    ("soft hyphen", "al\u00adice"),
    ("line separator", "one\u2028two"),
    ("paragraph separator", "one\u2029two"),
    ("interlinear annotation", "\ufff9a\ufffab\ufffb"),
    ("hangul filler", "\u3164"),
    ("variation selectors carry bytes", "a\U000e0100\U000e0101\U000e01ef"),
    ("combining tower", "Z" + "\u0300\u0316\u0334\u0361" * 40),
    ("emoji chain", "\u200d".join("👨" * 60)),
    ("hangul initials", "\u1100" * 200),
    ("lone surrogate", "a\ud800b\udfff"),
    ("escaped surrogate byte", "a\udc9bb"),
    ("an unfinished escape at the end", "name\x1b"),
    ("noncharacter", "a\ufffeb\uffff"),
    ("format braces and markup", "{x} %s |r $You() \\x1b[31m"),
    ("one word of ten thousand columns", "w" * 10_000),
]

OURS: Final = re.compile(rb"\x1b\[(?:[0-9;]*m|J|2K|H|B|[0-9]+[AC]|\?7[lh]|\?2004[hl]|\?25h)")
"""Every sequence a terminal of ours ever writes."""


def is_harmless(written: bytes) -> bool:
    """Whether nothing acts on the terminal but our own sequences, CR LF and the bell."""
    text = OURS.sub(b"", written).decode()
    joiner = "\u200d"
    return all(
        char in ("\r", "\n", "\x07", joiner)
        or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        for char in text
    )
