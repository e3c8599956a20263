"""The verb set: preferences of an agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

from sshwarma.common.validation_text import format_given
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option, one_of
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import Confirmation, draw_columns, view
from sshwarma.world import agents
from sshwarma.world.access import TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound


@dataclass(frozen=True, slots=True)
class Preference:
    """A preference of an agent: its allowed values, the first of them the default."""

    values: tuple[str, ...]
    help: str


PREFERENCES: Final[Mapping[str, Preference]] = {
    "theme": Preference(("dark", "light", "mono"), "colours for a dark or a light background"),
    "plain": Preference(("off", "on"), "for screen readers: no live redraws, no box drawing"),
    "timestamps": Preference(("off", "on"), "the time before every line"),
    "bell": Preference(("on", "off"), "ring when somebody mentions you or tells you something"),
    "markdown": Preference(
        ("on", "off"), "answers of models with headings, lists and code drawn; off: as written"
    ),
    "tools": Preference(
        ("folded", "full", "hidden"), "calls of tools: a line each, with results, only failures"
    ),
    "vi": Preference(("off", "on"), "vi keys in the line editor"),
    "start": Preference(("lobby", "last"), "where a login lands: the lobby or where you last were"),
    "history": Preference(("20", "0", "50", "100"), "lines of a room shown on entering it"),
}


def read_preference(prefs: Mapping[str, Any], name: str) -> str:
    """Read a preference; its default if it is not set or its value is not allowed."""
    preference = PREFERENCES[name]
    value = prefs.get(name)
    return value if value in preference.values else preference.values[0]


async def complete_settings(request: CompletionRequest) -> list[Option]:
    """List the names of the preferences."""
    return [(name, preference.help) for name, preference in PREFERENCES.items()]


async def complete_setting_values(request: CompletionRequest) -> list[Option]:
    """List the values of the preference in `request.given`."""
    preference = PREFERENCES.get(request.given[0]) if request.given else None
    return [(value, "") for value in preference.values] if preference else []


SettingName: TypeAlias = Annotated[str, Arg(complete=complete_settings), one_of(PREFERENCES)]
SettingValue: TypeAlias = Annotated[str, Arg(complete=complete_setting_values)]


@dataclass(frozen=True, slots=True)
class PreferenceValues:
    """The preferences of the caller: name, value, other values, and help."""

    values: tuple[tuple[str, str, str, str], ...]  # name, value, other values, help


@view(PreferenceValues)
def draw_preference_values(settings: PreferenceValues) -> Block:
    """Draw the caller's preferences, with the values that each may have."""
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
async def set_preference(
    caller: Caller, setting: SettingName | None = None, value: SettingValue | None = None
) -> PreferenceValues | Confirmation:
    """Show or change your settings.

    A change applies to all your connections at once.

    Args:
        setting: name of the setting, such as theme or plain.
        value: one of its values.
    """
    prefs: dict[str, Any] = dict(caller.agent.prefs)
    if setting is None:
        return PreferenceValues(
            tuple(
                (name, read_preference(prefs, name), ", ".join(preference.values), preference.help)
                for name, preference in PREFERENCES.items()
            )
        )
    preference = PREFERENCES.get(setting)
    if preference is None:
        raise NotFound(
            f"Unknown setting {setting[:40]}.", hint=f"Choose one of: {', '.join(PREFERENCES)}."
        )
    if value is None:
        return Confirmation(f"{setting} is {read_preference(prefs, setting)}.")
    if value not in preference.values:
        raise Invalid(
            f"{setting}: choose one of: {', '.join(preference.values)} (got {format_given(value)})."
        )
    prefs[setting] = value
    await caller.change(lambda tx: agents.update_agent(tx, caller.agent.id, prefs=prefs))
    return Confirmation(f"{setting} is {value}.")
