"""How a terminal shows images, by its type, its environment and the setting."""

from __future__ import annotations

import pytest

from sshwarma.terminal.image_mode import choose_image_mode


@pytest.mark.parametrize(
    ("term", "env", "mode"),
    [
        ("xterm-kitty", {}, "kitty"),
        ("xterm-ghostty", {}, "kitty"),
        ("wezterm", {}, "iterm"),
        ("xterm-256color", {"LC_TERMINAL": "iTerm2"}, "iterm"),
        ("xterm-256color", {"TERM_PROGRAM": "WezTerm"}, "iterm"),
        ("tmux-256color", {"LC_TERMINAL": "iTerm2"}, "blocks"),
        ("screen.xterm-256color", {"LC_TERMINAL": "iTerm2"}, "blocks256"),
        ("screen-256color", {"COLORTERM": "truecolor"}, "blocks"),
        ("xterm-256color", {}, "blocks256"),
        ("xterm-256color", {"COLORTERM": "24bit"}, "blocks"),
        ("alacritty", {}, "blocks"),
        ("linux", {}, "blocks256"),
        ("dumb", {}, "off"),
        ("", {"COLORTERM": "truecolor"}, "off"),
        ("vt220", {}, "off"),
    ],
)
def test_on_chooses_what_the_terminal_can(term: str, env: dict[str, str], mode: str) -> None:
    assert choose_image_mode("on", term, env) == mode


@pytest.mark.parametrize(
    ("setting", "mode"),
    [("off", "off"), ("kitty", "kitty"), ("iterm", "iterm"), ("blocks", "blocks256")],
)
def test_setting_overrides_the_type_of_the_terminal(setting: str, mode: str) -> None:
    assert choose_image_mode(setting, "xterm-256color", {}) == mode
    assert choose_image_mode(setting, "dumb", {}) == "off"
