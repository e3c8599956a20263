"""Settings of a person: one place knows their defaults."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

import sshwarma
from sshwarma.verbs.set import USER_SETTINGS, read_user_setting
from support.people import Someone, do

SOURCES = Path(sshwarma.__file__).parent


def test_settings_are_read_in_one_place() -> None:
    """A second reader has defaults of its own, and takes values that are not allowed."""
    reading = {
        file.relative_to(SOURCES).as_posix()
        for file in SOURCES.rglob("*.py")
        if re.search(r"\bprefs(\.get\(|\[\")", file.read_text(encoding="utf-8"))
    }
    assert reading == {"verbs/set.py"}


@pytest.mark.parametrize("name", USER_SETTINGS)
async def test_setting_has_its_default_unless_it_is_set(name: str, bob: Someone) -> None:
    first, *others = USER_SETTINGS[name].values
    assert read_user_setting(bob.agent.prefs, name) == first
    assert read_user_setting({name: "no such value"}, name) == first
    await do(bob, f"/set {name} {others[0]}")
    assert read_user_setting(bob.agent.prefs, name) == others[0]


async def test_settings_and_aliases_at_once_are_all_kept(bob: Someone) -> None:
    """As of two terminals: each line has read them before the other stores."""
    names = list(USER_SETTINGS)
    lines = [f"/set {name} {USER_SETTINGS[name].values[1]}" for name in names]
    lines += [f"/alias short{number} = /look" for number in range(5)]
    await asyncio.gather(*(do(bob, line) for line in lines))
    assert {name: read_user_setting(bob.agent.prefs, name) for name in names} == {
        name: USER_SETTINGS[name].values[1] for name in names
    }
    assert set(bob.agent.aliases) == {f"short{number}" for number in range(5)}
