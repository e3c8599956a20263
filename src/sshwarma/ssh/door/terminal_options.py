"""Display options of a terminal, from settings and the client's environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sshwarma.terminal.image_mode import choose_image_mode
from sshwarma.terminal.terminal import TerminalOptions
from sshwarma.terminal.theme import choose_theme
from sshwarma.verbs.set import read_user_setting


@dataclass(frozen=True, slots=True)
class ClientTerminal:
    """What an ssh client says of its terminal.

    Attributes:
        term: its type; "" if it has none.
        env: the environment that the client sent.
        utf8: whether its locale is UTF-8.
    """

    term: str
    env: Mapping[str, str]
    utf8: bool

    def choose_options(self, prefs: Mapping[str, Any]) -> TerminalOptions:
        """Return the options for a person's settings."""
        theme = read_user_setting(prefs, "theme")
        return TerminalOptions(
            theme=choose_theme(theme, no_color="NO_COLOR" in self.env),
            utf8=self.utf8,
            plain=self.term in ("", "dumb") or read_user_setting(prefs, "plain") == "on",
            vi=read_user_setting(prefs, "vi") == "on",
            images=choose_image_mode(read_user_setting(prefs, "images"), self.term, self.env),
        )
