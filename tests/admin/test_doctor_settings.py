"""Checks of an installation whose settings are not valid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sshwarma.cli.main import main
from sshwarma.common.exit_status import EXIT_OK, EXIT_USAGE

SOUND = """
[[models]]
name = "qwen"
kind = "openai"
model = "qwen3"
key_env = "NO_SUCH_KEY"
"""

FROM_DATA_DIR = ["user", "data directory", "disk", "database"]
"""Checks that need the name of the data directory alone."""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    path = tmp_path / "world"
    assert main(["init", "--data-dir", str(path)]) == EXIT_OK
    return path


def check(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """What doctor finds, where the settings are not valid."""
    capsys.readouterr()
    assert main(["doctor", "--json", *words]) == EXIT_USAGE
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "some.toml"
    file.write_text(text)
    return file


def test_wrong_section_leaves_the_checks_of_all_others(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, f'data_dir = "{data_dir}"\n[ssh]\nmax_pending = 0\n{SOUND}')
    found = check(capsys, "--config", str(file))
    assert found[0]["detail"] == f"{file}: ssh.max_pending: must be more than 0 (got 0)"
    assert (found[0]["name"], found[0]["ok"], found[1]["ok"]) == ("settings", False, True)
    assert found[1]["detail"].endswith("their settings are not valid: ports and addresses")
    assert found[2]["detail"].endswith("owns the data directory")
    names = [one["name"] for one in found]
    assert set(FROM_DATA_DIR) <= set(names)
    assert "ssh port" not in names and names.count("settings") == 2
    assert next(one for one in found if one["name"] == "model qwen")["ok"] is False
    assert str(data_dir) in next(one for one in found if one["name"] == "database")["detail"]


def test_problems_of_variables_and_file_are_all_named(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("SSHWARMA_MODT", "hello")
    file = write(tmp_path, "typo = 1\n[backup]\nevery = 'often'\n")
    found = check(capsys, "--config", str(file), "--data-dir", str(data_dir))
    wrong = [one["detail"] for one in found if one["name"] == "settings" and not one["ok"]]
    assert wrong[0] == "SSHWARMA_MODT: unknown setting (did you mean SSHWARMA_MOTD?)"
    assert len(wrong) == 3 and f"{file}: typo: unknown setting" in wrong
    assert "ssh port" in [one["name"] for one in found]


@pytest.mark.parametrize("text", ["motd = ", "data_dir = 7\n"])
def test_file_that_may_name_the_data_directory_leaves_nothing_to_check(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, text)
    found = check(capsys, "--config", str(file))
    assert [one["name"] for one in found] == ["settings", "data directory"]
    assert found[1]["detail"] == "not checked, because it is not known"


def test_file_that_cannot_be_read_leaves_the_named_data_directory(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = write(tmp_path, "motd = ")
    found = check(capsys, "--config", str(file), "--data-dir", str(data_dir))
    assert set(FROM_DATA_DIR) <= {one["name"] for one in found}
    monkeypatch.setenv("SSHWARMA_DATA_DIR", str(data_dir))
    again = check(capsys, "--config", str(file))
    assert [one for one in again if one["name"] != "disk"] == [
        one
        for one in found
        if one["name"] != "disk"  # other programs write to it
    ]
    main(["doctor", "--config", str(file)])
    shown = capsys.readouterr().out
    assert shown.startswith(f"FAIL  settings: {file}: ")
    assert f"ok    database: {data_dir / 'world.db'}, ok\n" in shown


def test_file_that_does_not_exist_leaves_what_needs_no_settings(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "none.toml"
    found = check(capsys, "--config", str(file), "--data-dir", str(data_dir))
    assert found[0]["detail"] == f"settings file not found: {file}"
    assert set(FROM_DATA_DIR) <= {one["name"] for one in found}
    found = check(capsys, "--config", str(file))
    assert found[1]["detail"] == "not checked, because it is not known", "the file may name it"
