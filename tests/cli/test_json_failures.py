"""What commands with --json print where their words or the settings are wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sshwarma.cli.main import main
from sshwarma.common.exit_status import EXIT_OK, EXIT_USAGE


def run(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The JSON that a command prints, with nothing beside it."""
    assert main(list(words)) == EXIT_USAGE
    printed = capsys.readouterr()
    assert printed.err == ""
    answer: dict[str, Any] = json.loads(printed.out)
    return answer


@pytest.mark.parametrize(("words", "message", "path"), [
    (["keys", "list", "--json", "--typo"], "No such option '--typo'.", "sshwarma keys list"),
    (["backup", "--json"], "Missing argument 'FILE'.", "sshwarma backup"),
    (["juggle", "--json"], "No such command 'juggle'.", "sshwarma"),
    (["invite", "--hours", "soon", "--json"],
     "Invalid value for '--hours': 'soon' is not a valid float range.", "sshwarma invite"),
    (["serve", "--bogus", "--json"], "No such option '--bogus'.", "sshwarma serve"),
])  # fmt: skip
def test_wrong_usage_is_json(
    words: list[str], message: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, *words) == {
        "error": "invalid", "message": message, "hint": f"Try {path} --help.",
    }  # fmt: skip


def test_json_behind_the_end_of_options_asks_for_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["info", "--typo", "--", "--json"]) == EXIT_USAGE
    printed = capsys.readouterr()
    assert printed.out == "" and "No such option '--typo'" in printed.err


def test_wrong_usage_of_a_backup_to_standard_output_leaves_that_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["backup", "-", "--json", "--typo"]) == EXIT_USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert json.loads(printed.err)["message"] == "No such option '--typo'."


def test_invalid_settings_are_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("typo = 1\n")
    words = ["info", "--json", "--config", str(file)]
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == EXIT_USAGE
    printed = capsys.readouterr()
    said = f"Invalid settings: {file}: typo: unknown setting."
    assert json.loads(printed.out) == {"error": "invalid", "message": said, "hint": ""}
    assert printed.err == ""


def test_invalid_settings_of_a_backup_to_standard_output_leave_that_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("typo = 1\n")
    with pytest.raises(SystemExit):
        main(["backup", "-", "--json", "--config", str(file)])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert json.loads(printed.err)["error"] == "invalid"


@pytest.mark.parametrize("option", ["--config", "--data-dir"])
def test_empty_path_is_wrong_usage(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the words that `main` was given."""
    message = run(capsys, "info", "--json", option, "")["message"]
    assert message == f"Invalid value for '{option}': must not be empty."


def test_backup_in_json_names_its_file_and_its_world(
    newborn: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    shutil.copyfile(newborn, data / "world.db")
    file = tmp_path / "b.tar.gz"
    assert main(["backup", str(file), "--json", "--data-dir", str(data)]) == EXIT_OK
    answer = json.loads(capsys.readouterr().out)
    assert (answer["file"], answer["world"]) == (str(file), str(data))
