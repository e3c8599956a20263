"""What is written is what is: generated pages are current, and the README's commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
sys.path.insert(0, str(TOP))

from docs.generate import PAGES  # noqa: E402 - the path is set above

from sshwarma.settings import load_settings  # noqa: E402
from sshwarma.verbs.help import load_help_topics  # noqa: E402
from sshwarma.verbs.registry import find_verb, verb_names  # noqa: E402


@pytest.mark.parametrize("name", PAGES)
def test_reference_pages_are_what_the_declarations_say(name: str) -> None:
    written = (TOP / "docs" / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "run `make docs`"


def test_every_verb_that_help_and_readme_show_exists() -> None:
    shown = [*load_help_topics().values(), (TOP / "README.md").read_text(encoding="utf-8")]
    named = {word for text in shown for word in re.findall(r"(?<![\w/.])/([a-z]+)\b", text)}
    unknown = {word for word in named if find_verb(word) is None}
    assert unknown <= {"healthz", "metrics", "srv", "path", "api", "mcp"}


def test_no_help_topic_hides_behind_a_verb() -> None:
    assert not set(load_help_topics()) & set(verb_names())


@pytest.mark.process
def test_every_command_the_readme_shows_is_one_of_the_program() -> None:
    text = (TOP / "README.md").read_text(encoding="utf-8")
    commands = set(
        re.findall(r"(?:^|/)sshwarma ((?:keys |agents |config )?[a-z]+)", text, re.MULTILINE)
    )
    assert len(commands) > 5
    for command in commands:
        words = [sys.executable, "-m", "sshwarma.cli", *command.split(), "--help"]
        assert subprocess.run(words, capture_output=True, check=False).returncode == 0, command


def test_the_example_settings_are_settings() -> None:
    settings = load_settings(TOP / "examples" / "sshwarma.toml")
    assert [model.name for model in settings.models] == ["qwen", "opus"]
    assert settings.registration.mode == "invite"
