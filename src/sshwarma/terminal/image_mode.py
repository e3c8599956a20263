"""Image mode of a terminal, from its type and its client's environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sshwarma.terminal.picture import ImageMode

_WITHOUT_IMAGES: Final = ("", "dumb", "unknown")
_MONOCHROME: Final = ("vt",)
_MULTIPLEXERS: Final = ("tmux", "screen")
"""Beginnings of TERM inside programs that pass no images on, whatever terminal is outside."""

_KITTY_TERMS: Final = ("xterm-kitty", "xterm-ghostty", "ghostty")
_ITERM_TERMS: Final = ("wezterm", "mintty", "iterm")
_ITERM_PROGRAMS: Final = ("iterm", "wezterm", "mintty")
"""Beginnings of LC_TERMINAL or TERM_PROGRAM."""

_24_BIT_TERMS: Final = ("alacritty", "foot", "xterm-direct", "tmux", "contour", "rio")
"""Beginnings of TERM where 24-bit colours are sure; tmux reduces them to what is outside."""


def choose_image_mode(setting: str, term: str, env: Mapping[str, str]) -> ImageMode:
    """Return how a terminal shows images.

    Args:
        setting: value of the setting `images`: off, on, kitty, iterm or blocks.
        term: type of the terminal.
        env: environment that the ssh client sent.
    """
    term = term.lower()
    if setting == "off" or term in _WITHOUT_IMAGES or term.startswith(_MONOCHROME):
        return "off"
    if setting == "kitty" or (setting == "on" and term.startswith(_KITTY_TERMS)):
        return "kitty"
    if setting == "iterm" or (setting == "on" and _has_iterm_protocol(term, env)):
        return "iterm"
    return "blocks" if _has_24_bit_colours(term, env) else "blocks256"


def _has_iterm_protocol(term: str, env: Mapping[str, str]) -> bool:
    if term.startswith(_MULTIPLEXERS):
        return False
    programs = (env.get("LC_TERMINAL", "").lower(), env.get("TERM_PROGRAM", "").lower())
    return term.startswith(_ITERM_TERMS) or any(
        program.startswith(_ITERM_PROGRAMS) for program in programs
    )


def _has_24_bit_colours(term: str, env: Mapping[str, str]) -> bool:
    return (
        env.get("COLORTERM", "").lower() in ("truecolor", "24bit")
        or term.startswith((*_24_BIT_TERMS, *_KITTY_TERMS, *_ITERM_TERMS))
        or term.endswith(("-direct", "-truecolor", "-24bit"))
    )
