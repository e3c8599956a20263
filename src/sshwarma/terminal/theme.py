"""Themes: each maps the names in `text.STYLE_NAMES` to SGR parameters.

They use only the sixteen colours that users can choose in their terminal. `mono` uses no colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

DARK: Final = "dark"
LIGHT: Final = "light"
MONO: Final = "mono"

RESET_SEQUENCE: Final = "\x1b[0m"

_MONO: Final[dict[str, str]] = {
    "heading": "1", "self": "1", "model": "1", "mention": "7", "error": "1", "warn": "1",
    "link": "4", "status": "7", "strong": "1", "emphasis": "4", "code-keyword": "1",
    "code-name": "1", "code-added": "1",
}  # fmt: skip

_DARK: Final[dict[str, str]] = {
    "heading": "1", "name": "36", "self": "1;36", "model": "35", "room": "34;1", "thing": "33",
    "tool": "32", "verb": "1", "emote": "3", "private": "95", "presence": "90", "notice": "93",
    "mention": "7;93", "time": "90", "dim": "90", "ok": "32", "warn": "33", "error": "91",
    "mark": "32", "code": "96", "link": "4;94", "prompt": "1;32", "status": "7",
    "strong": "1", "emphasis": "3", "code-keyword": "95", "code-string": "32",
    "code-number": "33", "code-comment": "90", "code-name": "94", "code-type": "36",
    "code-added": "32", "code-removed": "91",
}  # fmt: skip

_LIGHT: Final[dict[str, str]] = {
    "heading": "1", "name": "34", "self": "1;34", "model": "35", "room": "1;34", "thing": "31",
    "tool": "32", "verb": "1", "emote": "3", "private": "35", "presence": "90", "notice": "35",
    "mention": "7;35", "time": "90", "dim": "90", "ok": "32", "warn": "31", "error": "1;31",
    "mark": "32", "code": "34", "link": "4;34", "prompt": "1;32", "status": "7",
    "strong": "1", "emphasis": "3", "code-keyword": "35", "code-string": "32",
    "code-number": "31", "code-comment": "90", "code-name": "34", "code-type": "36",
    "code-added": "32", "code-removed": "31",
}  # fmt: skip


def _start_sequences(parameters: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({style: f"\x1b[{sgr}m" for style, sgr in parameters.items()})


THEMES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {DARK: _start_sequences(_DARK), LIGHT: _start_sequences(_LIGHT), MONO: _start_sequences(_MONO)}
)
"""Theme name -> style -> start sequence. A style without an entry is plain text."""


@lru_cache(maxsize=512)
def style_sequence(theme: str, style: str) -> str:
    """Return the sequence that starts styles; "" if they look like plain text."""
    starts = THEMES[theme]
    return "".join(starts.get(name, "") for name in style.split())


def choose_theme(name: str, *, no_color: bool = False) -> str:
    """Return the theme for a requested name: `mono` with NO_COLOR, `dark` if unknown."""
    if no_color:
        return MONO
    return name if name in THEMES else DARK
