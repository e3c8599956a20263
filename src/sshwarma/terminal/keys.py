"""Key parser: bytes from a terminal to keys, one packet at a time.

prompt_toolkit's Vt100Parser was measured first: 2.6 to 3.9 s of CPU per MiB of plain text, 50 to
100 us a byte inside a long unknown sequence, a shared cache that grows with every unknown prefix,
and no bound on an open paste. This parser takes text in runs (about 1 ms per MiB), holds at most
MAX_SEQUENCE_CHARACTERS or one paste between packets, and examines every byte once.

Key names: `text` and `paste` carry their text in `Key.data`. Others are `enter`, `tab`, `s-tab`,
`backspace`, `escape`, `up`, `home`, `delete`...; `c-` is control, `m-` alt, `s-` shift, in the
order `c-m-s-`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from sshwarma.common.limits import MAX_PASTE_CHARACTERS

MAX_SEQUENCE_CHARACTERS: Final = 64
"""Characters held of an unfinished escape sequence; a longer one is discarded."""


class KeyPress(NamedTuple):
    """One key, or a run of typed text, or a paste."""

    name: str
    data: str = ""
    overflow: bool = False


_TEXT: Final = re.compile("[^\x00-\x1f\x7f-\x9f]+")
_SEQUENCE: Final = re.compile(
    "\x1b(?:"
    r"\[\[[A-E]"  # function keys of the Linux console
    r"|\[M[^\x00-\x1f]{3}"  # a mouse report in the old encoding
    r"|\[(?!M)([0-?]{0,64})[ -/]{0,4}([@-Z\\-~])"  # CSI: parameters, final
    "|O([0-9;]{0,8})([A-Za-z])"  # SS3: parameters, final
    "|([^\x1b\\[OPX^_\\]])"  # alt and a key
    ")"
)
_UNFINISHED: Final = re.compile("\x1b(?:\\[(?:\\[|M[^\x00-\x1f]{0,2}|[0-?]*[ -/]*)?|O[0-9;]*)?$")
_STRING_START: Final = re.compile(r"\x1b[P\]X^_]")  # DCS, OSC, SOS, PM, APC: replies to queries
_STRING_BODY: Final = re.compile("[^\x00-\x1f\x7f-\x9f]*")
_CSI_BODY: Final = re.compile("[ -?]*")
_PASTE_HELD: Final = re.compile("(?:\x1b(?:\\[(?:2(?:0(?:1)?)?)?)?|\r)$")
_PASTE_END: Final = "\x1b[201~"

_CONTROL_KEYS: Final = {
    **{chr(code): "c-" + chr(code + 0x60) for code in range(1, 27)},
    "\t": "tab", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace",
    "\x1c": "c-\\", "\x1d": "c-]", "\x1e": "c-^", "\x1f": "c-_",
}  # fmt: skip
_LETTER_KEYS: Final = {
    "A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end", "Z": "s-tab",
}  # fmt: skip
_NUMBER_KEYS: Final = {
    "1": "home", "2": "insert", "3": "delete", "4": "end", "5": "pageup", "6": "pagedown",
    "7": "home", "8": "end", "19": "f8", "20": "f9",
}  # fmt: skip
_CODE_KEYS: Final = {9: "tab", 13: "enter", 27: "escape", 127: "backspace", 8: "backspace"}


class _ParserMode:
    """The state of the parser."""

    GROUND: Final = 0
    PASTE: Final = 1
    STRING: Final = 2  # in a control string: discard up to its end
    LONG: Final = 3  # in a CSI too long to be a key: discard up to its final byte


class KeyParser:
    """The key parser of one terminal; `feed` never raises, whatever the input."""

    __slots__ = ("_after_return", "_decode", "_held", "_mode", "_overflow", "_paste", "_size")

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._held = ""
        self._mode = _ParserMode.GROUND
        self._paste: list[str] = []
        self._size = 0
        self._overflow = False
        self._after_return = False

    @property
    def has_pending_input(self) -> bool:
        """Whether `flush` would decide held input, such as a lone escape."""
        return bool(self._held) or self._mode != _ParserMode.GROUND

    @property
    def is_pasting(self) -> bool:
        """Whether a paste is open."""
        return self._mode == _ParserMode.PASTE

    def reset(self) -> None:
        """Drop held input and return to the initial state."""
        self._held = ""
        self._mode = _ParserMode.GROUND
        self._paste = []
        self._size = 0
        self._overflow = False

    def flush(self) -> list[KeyPress]:
        """Return the keys of held input after a timeout without more input.

        A lone escape is the Escape key; an open paste ends; an unfinished sequence is dropped.
        """
        sequence, was_pasting = self._held, self.is_pasting
        if was_pasting:
            self._append_paste(_normalize_newlines(sequence))
            key = self._make_paste_key()
        self.reset()
        if was_pasting:
            return [key]
        if sequence == "\x1b":
            return [KeyPress("escape")]
        return []

    def feed(self, data: bytes) -> Iterator[KeyPress]:
        """Yield the keys that `data` completes. Consume them all, or call `reset`."""
        text = self._held + self._decode(data)
        self._held = ""
        at, end = 0, len(text)
        while at < end:
            if self._mode == _ParserMode.PASTE:
                at, key = self._take_paste(text, at)
                if key:
                    yield key
                continue
            if self._mode != _ParserMode.GROUND:
                at = self._skip_string(text, at)
                continue
            match = _TEXT.match(text, at)
            if match:
                self._after_return = False
                at = match.end()
                yield KeyPress("text", match[0])
                continue
            char = text[at]
            if char == "\x1b":
                at, key = self._take_sequence(text, at)
                if key:
                    yield key
                continue
            at += 1
            name = _CONTROL_KEYS.get(char)
            if name and not (char == "\n" and self._after_return):
                yield KeyPress(name)
            self._after_return = char == "\r"

    def _take_sequence(self, text: str, at: int) -> tuple[int, KeyPress | None]:
        self._after_return = False
        match = _SEQUENCE.match(text, at)
        if match:
            parameters, final, shifts, letter, alt = match.groups()
            key = None
            if alt is not None:
                key = _alt_key(alt)
            elif letter is not None:
                key = _named_key(_LETTER_KEYS.get(letter), _modifier_prefix(shifts))
            elif final is not None:
                key = self._control(parameters, final)
            return match.end(), key
        if _STRING_START.match(text, at):
            self._mode = _ParserMode.STRING
            return at + 2, None
        if len(text) - at <= MAX_SEQUENCE_CHARACTERS and _UNFINISHED.match(text, at):
            self._held = text[at:]
            return len(text), None
        if text.startswith("\x1b\x1b", at):
            return at + 1, KeyPress("escape")
        if text.startswith("\x1b[", at):
            self._mode = _ParserMode.LONG
            return at + 2, None
        return at + 2, None

    def _control(self, parameters: str, final: str) -> KeyPress | None:
        """Return the key of a CSI sequence; None for replies, mouse, focus, unknown ones."""
        if parameters[:1] in ("?", ">", "<", "="):
            return None
        number, _, rest = parameters.partition(";")
        if final == "~":
            if number == "200":
                self._mode = _ParserMode.PASTE
                return None
            if number == "27":  # xterm's modifyOtherKeys: 27 ; modifiers ; code
                shifts, _, code = rest.partition(";")
                return _key_of_code(code, shifts)
            return _named_key(_NUMBER_KEYS.get(number), _modifier_prefix(rest))
        if final == "u":  # the same as CSI code ; modifiers u
            return _key_of_code(number, rest)
        return _named_key(_LETTER_KEYS.get(final), _modifier_prefix(rest))

    def _skip_string(self, text: str, at: int) -> int:
        """Return the position after the control string or overlong sequence in `text`."""
        body = _STRING_BODY if self._mode == _ParserMode.STRING else _CSI_BODY
        match = body.match(text, at)
        at = match.end() if match else at
        if at == len(text):
            return at
        if self._mode == _ParserMode.STRING and text[at] == "\x1b":
            if at + 1 == len(text):
                self._held = "\x1b"
                return at + 1
            self._mode = _ParserMode.GROUND
            return at + 2 if text[at + 1] == "\\" else at
        is_end = (
            text[at] in "\x07\x9c" if self._mode == _ParserMode.STRING else "@" <= text[at] <= "~"
        )
        self._mode = _ParserMode.GROUND
        return at + 1 if is_end else at

    def _take_paste(self, text: str, at: int) -> tuple[int, KeyPress | None]:
        end = text.find(_PASTE_END, at)
        if end >= 0:
            self._append_paste(_normalize_newlines(text[at:end]))
            key = self._make_paste_key()
            self.reset()
            return end + len(_PASTE_END), key
        match = _PASTE_HELD.search(text, max(at, len(text) - len(_PASTE_END)))
        stop = match.start() if match else len(text)
        self._append_paste(_normalize_newlines(text[at:stop]))
        self._held = text[stop:]
        return len(text), None

    def _append_paste(self, part: str) -> None:
        room = MAX_PASTE_CHARACTERS - self._size
        if len(part) > room:
            self._overflow = True
            part = part[:room]
        if part:
            self._paste.append(part)
            self._size += len(part)

    def _make_paste_key(self) -> KeyPress:
        return KeyPress("paste", "".join(self._paste), self._overflow)


def _normalize_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _modifier_prefix(parameter: str) -> str:
    """Return the prefix of an xterm modifier: 1 + shift 1 + alt 2 + control 4."""
    digits = parameter.partition(":")[0].partition(";")[0]
    bits = int(digits) - 1 if digits.isdecimal() and len(digits) < 4 else 0
    return ("c-" if bits & 4 else "") + ("m-" if bits & 2 else "") + ("s-" if bits & 1 else "")


def _named_key(name: str | None, prefix: str) -> KeyPress | None:
    return KeyPress(prefix + name) if name else None


def _alt_key(char: str) -> KeyPress | None:
    name = _CONTROL_KEYS.get(char, char)
    return KeyPress("m-" + name) if name.isprintable() else None


def _key_of_code(code: str, shifts: str) -> KeyPress | None:
    """Return the key with a given Unicode code and modifiers, or None."""
    digits = code.partition(":")[0]
    if not digits.isdecimal() or len(digits) > 7 or not 0 < int(digits) < 0xD800:
        return None
    number, prefix = int(digits), _modifier_prefix(shifts)
    if number in _CODE_KEYS:
        return KeyPress(prefix + _CODE_KEYS[number])
    char = chr(number)
    if not char.isprintable():
        return None
    if prefix in ("", "s-"):
        return KeyPress("text", char)
    return KeyPress(prefix.replace("s-", "") + char.lower())
