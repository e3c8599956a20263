"""What a reload changes, what waits for a restart, and what it says of both."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sshwarma.admin.reload import (
    apply_settings,
    compare_settings,
    keep_fixed,
    load_again,
)
from sshwarma.settings import ReloadableSettings, Settings, SettingsSource, load_settings
from sshwarma.world.errors import Invalid

QWEN = {"name": "qwen", "kind": "ollama", "model": "qwen3:8b"}
FILES = {"name": "files", "command": ["files"]}


def settings(**values: Any) -> Settings:
    return load_settings(**{"data_dir": Path("/srv/world"), **values})


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, {"motd": "Hello there"}, 'motd: "" -> "Hello there"'),
        ({}, {"motd": "long " * 20}, "motd"),
        ({}, {"limits": {"bag_things": 7}}, "limits.bag_things: 10000 -> 7"),
        ({}, {"registration": {"mode": "open"}}, "registration.mode: closed -> open"),
        ({}, {"search": {"threshold": 0.5}}, "search.threshold: default -> 0.5"),
        ({}, {"log": {"format": "json"}}, "log.format: console -> json"),
        ({}, {"http": {"hosts": ["a.example"]}}, "http.hosts: none -> a.example"),
        ({}, {"models": [QWEN]}, "models.qwen: added"),
        ({"models": [QWEN]}, {"models": [QWEN | {"seed": 1}]}, "models.qwen: changed"),
        ({"mcp": [FILES]}, {}, "mcp.files: removed"),
    ],
)
def test_changed_setting_is_listed(
    before: dict[str, Any], after: dict[str, Any], said: str
) -> None:
    report = compare_settings(settings(**before), settings(**after))
    assert (report.changed, report.needs_restart) == ([said], [])


def test_addresses_and_the_data_directory_stay_until_a_restart() -> None:
    old = settings()
    new = settings(
        data_dir=Path("/srv/other"),
        ssh={"listen": "127.0.0.1:3333", "max_pending": 3},
        http={"listen": "off", "hosts": ["a.example"]},
    )
    report = compare_settings(old, new)
    assert [text.partition(":")[0] for text in report.needs_restart] == [
        "data_dir", "ssh.listen", "ssh.max_pending", "http.listen",
    ]  # fmt: skip
    kept = keep_fixed(old, new)
    assert (kept.data_dir, kept.ssh, kept.http.listen) == (old.data_dir, old.ssh, old.http.listen)
    assert kept.http.hosts == ("a.example",)
    assert compare_settings(kept, new).needs_restart == report.needs_restart  # it is said again


def test_values_of_models_and_servers_are_not_shown() -> None:
    hidden = {**FILES, "env": {"WORD": "swordfish"}}
    report = compare_settings(settings(), settings(mcp=[hidden]))
    assert "swordfish" not in str(report)


def test_settings_that_cannot_be_read_are_refused_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "sshwarma.toml"
    file.write_text("[ssh]\nmax_pending = 0\n")
    with pytest.raises(
        Invalid, match=r"nothing changed: \S+\.toml: ssh\.max_pending: must be more than 0"
    ):
        load_again(SettingsSource(file))
    with pytest.raises(Invalid, match=rf"nothing changed: {tmp_path}: Is a directory\.$"):
        load_again(SettingsSource(tmp_path))
    with pytest.raises(Invalid, match=r"nothing changed: settings file not found: /nowhere\.$"):
        load_again(SettingsSource(Path("/nowhere")))


async def test_skipped_parts_are_reported_and_tried_again_and_the_others_are_in_force() -> None:
    adopted: list[object] = []

    class Models:
        def entries(self) -> list[object]:
            return []

        async def adopt(self, models: object) -> dict[str, str]:
            return {"qwen": "The disk is full."}

    class Servers:
        async def adopt(self, servers: object) -> dict[str, str]:
            adopted.append(servers)
            return {"old": "The disk is full."}

    removed = {**FILES, "name": "old"}
    old = settings(mcp=[removed], models=[{**QWEN, "name": "gone"}])
    new = settings(motd="new", mcp=[FILES], models=[QWEN])
    toolsets = SimpleNamespace(plugins=SimpleNamespace(is_on=False, sessions=SimpleNamespace()))
    services: Any = SimpleNamespace(
        settings=ReloadableSettings(), roster=Models(), hub=Servers(), toolsets=toolsets
    )
    report = compare_settings(old, new)
    assert report.changed == [
        *('motd: "" -> new', "models.gone: removed", "models.qwen: added"),
        *("mcp.files: added", "mcp.old: removed"),
    ]
    in_force = await apply_settings(services, old, new, report)
    assert report.problems == [
        "models.qwen: The disk is full.",
        "mcp.old: The disk is full.",
    ]
    assert report.changed == ['motd: "" -> new', "models.gone: removed", "mcp.files: added"]
    again = compare_settings(in_force, new).changed
    assert again == ["models.qwen: added", "mcp.old: removed"], "the next reload"
    assert (services.settings.motd, adopted) == ("new", [new.mcp])
