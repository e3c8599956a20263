"""Paths in settings: from where they begin, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pydantic import ValidationError

from sshwarma.settings import Settings, load_settings
from sshwarma.settings.paths import PATHS_OF_FILE, PATHS_OF_TABLES

Names: TypeAlias = Iterator[tuple[str, ...]]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings file, in neither the current directory nor the home directory."""
    monkeypatch.delenv("SSHWARMA_DATA_DIR", raising=False)
    for name in ("here", "home", "etc"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "etc" / "world.toml"


TEXT = """\
data_dir = {0!r}
[backup]
directory = {0!r}
[[models]]
name = "qwen"
kind = "openai"
model = "m"
key_file = {0!r}
[[mcp]]
name = "server"
command = ["true"]
cwd = {0!r}
"""


def list_paths(settings: Settings) -> set[Path | None]:
    model, server = settings.models[0], settings.mcp[0]
    return {settings.data_dir, settings.backup.directory, model.key_file, server.cwd}


@pytest.mark.parametrize(
    ("path", "found"),
    [("w", "etc/w"), ("~/w", "home/w"), ("/srv/w", "/srv/w"), ("./a/w", "etc/a/w")],
)
def test_paths_of_a_file_begin_at_its_directory(file: Path, path: str, found: str) -> None:
    file.write_text(TEXT.format(path))
    absolute = file.parent.parent / found
    assert list_paths(load_settings(file)) == {absolute}
    assert list_paths(load_settings(Path("..", "etc", file.name))) == {absolute}


def test_paths_of_flags_and_variables_begin_at_the_current_directory(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('data_dir = "w"\n')
    here = file.parent.parent / "here"
    assert load_settings(file, data_dir="x").data_dir == here / "x"
    monkeypatch.setenv("SSHWARMA_DATA_DIR", "y")
    assert load_settings(file).data_dir == here / "y"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "must not be empty"),
        ("$HOME/w", "variables are not replaced"),
        ("~nobody-has-this-name/w", "the home directory ~nobody-has-this-name is not known"),
    ],
)
def test_paths_that_would_be_another_place_are_refused(file: Path, path: str, why: str) -> None:
    file.write_text(TEXT.format(path))
    with pytest.raises(ValidationError, match=why) as refused:
        load_settings(file)
    places = {error["loc"][0] for error in refused.value.errors()}
    assert places == {"data_dir", "backup", "models", "mcp"}


def name_paths(schema: dict[str, Any], whole: dict[str, Any], above: tuple[str, ...]) -> Names:
    """Yield the names of all settings that are paths, by the schema of the settings."""
    schema = whole["$defs"][schema["$ref"].split("/")[-1]] if "$ref" in schema else schema
    for name, described in schema.get("properties", {}).items():
        for one in (described, *described.get("anyOf", ())):
            if one.get("format") == "path":
                yield (*above, name)
            for part in (one, one.get("items", {})):
                if "$ref" in part:
                    yield from name_paths(part, whole, (*above, name))


def test_every_path_of_a_file_begins_at_its_directory() -> None:
    schema = Settings.model_json_schema()
    placed = {*PATHS_OF_FILE, *PATHS_OF_TABLES}
    assert set(name_paths(schema, schema, ())) == placed
