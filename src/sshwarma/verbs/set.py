"""The verb set: the settings of an agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

from sshwarma.common.near_names import suggest_near_names
from sshwarma.common.shorten import shorten_name
from sshwarma.common.validation_text import format_given
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option, one_of
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import Confirmation, draw_columns, view
from sshwarma.world import agents
from sshwarma.world.access import TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.store import Change


@dataclass(frozen=True, slots=True)
class UserSetting:
    """A setting of an agent: its allowed values, the first of them the default."""

    values: tuple[str, ...]
    help: str


USER_SETTINGS: Final[Mapping[str, UserSetting]] = {
    "theme": UserSetting(("dark", "light", "mono"), "colours for a dark or a light background"),
    "plain": UserSetting(("off", "on"), "for screen readers: no live redraws, no box drawing"),
    "timestamps": UserSetting(("off", "on"), "the time before every line"),
    "bell": UserSetting(("on", "off"), "ring when somebody mentions you or tells you something"),
    "markdown": UserSetting(
        ("on", "off"), "format Markdown in models' answers; off: show the source"
    ),
    "images": UserSetting(
        ("off", "on", "kitty", "iterm", "blocks"),
        "images in tool results; on: in the best way that the terminal has; kitty, iterm, blocks:"
        " always in that way; off: only their size",
    ),
    "tools": UserSetting(
        ("folded", "full", "hidden"),
        "tool calls; folded: one line each; full: with results; hidden: only failures",
    ),
    "vi": UserSetting(("off", "on"), "vi keys in the line editor"),
    "start": UserSetting(
        ("lobby", "last"), "where a login lands: the lobby or where you last were"
    ),
    "history": UserSetting(("20", "0", "50", "100"), "lines of a room shown on entering it"),
}


def read_user_setting(prefs: Mapping[str, Any], name: str) -> str:
    """Read a setting of an agent; its default if it is unset or not allowed."""
    known = USER_SETTINGS[name]
    value = prefs.get(name)
    return value if value in known.values else known.values[0]


async def complete_settings(request: CompletionRequest) -> list[Option]:
    """List the names of the settings."""
    return [(name, known.help) for name, known in USER_SETTINGS.items()]


async def complete_setting_values(request: CompletionRequest) -> list[Option]:
    """List the values of the setting in `request.given`."""
    known = USER_SETTINGS.get(request.given[0]) if request.given else None
    return [(value, "") for value in known.values] if known else []


SettingName: TypeAlias = Annotated[str, Arg(complete=complete_settings), one_of(USER_SETTINGS)]
SettingValue: TypeAlias = Annotated[str, Arg(complete=complete_setting_values)]


@dataclass(frozen=True, slots=True)
class UserSettingValues:
    """The settings of the caller: name, value, other values, and help."""

    values: tuple[tuple[str, str, str, str], ...]  # name, value, other values, help


@view(UserSettingValues)
def draw_user_setting_values(settings: UserSettingValues) -> Block:
    """Draw the caller's settings, with the values that each may have."""
    return block(
        line(("heading", "Your settings:")),
        *draw_columns(
            (("mark", name), value, ("dim", f"({choices})"), text)
            for name, value, choices, text in settings.values
        ),
    )


@verb(
    "set",
    section="Yourself",
    tool=False,
    change_scope=TokenScope.ACT,
    examples=("/set", "/set plain on", "/set theme light"),
)
async def change_user_setting(
    caller: Caller, setting: SettingName | None = None, value: SettingValue | None = None
) -> UserSettingValues | Confirmation:
    """Show or change your settings.

    A change applies to all your connections at once.

    Args:
        setting: name of the setting, such as theme or plain.
        value: one of its values.
    """
    prefs: dict[str, Any] = dict(caller.agent.prefs)
    if setting is None:
        return UserSettingValues(
            tuple(
                (name, read_user_setting(prefs, name), ", ".join(known.values), known.help)
                for name, known in USER_SETTINGS.items()
            )
        )
    known = USER_SETTINGS.get(setting)
    if known is None:
        raise NotFound(
            f"Unknown setting {shorten_name(setting)}.",
            hint=suggest_near_names(setting, USER_SETTINGS)
            or f"Choose one of: {', '.join(USER_SETTINGS)}.",
        )
    if value is None:
        return Confirmation(f"{setting} is {read_user_setting(prefs, setting)}.")
    if value not in known.values:
        raise Invalid(
            f"{setting}: choose one of: {', '.join(known.values)} (got {format_given(value)})."
        )

    def store(tx: Change) -> None:
        stored, _ = agents.read_agent(tx.conn, caller.agent.id)  # another terminal may set one, too
        prefs = dict(stored.prefs) if stored is not None else {}
        agents.update_agent(tx, caller.agent.id, prefs=prefs | {setting: value})

    await caller.change(store)
    return Confirmation(f"{setting} is {value}.")
