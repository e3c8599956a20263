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

WRITTEN_PAGES = sorted(
    page.relative_to(TOP)
    for page in (*TOP.glob("*.md"), *TOP.glob("docs/**/*.md"), *TOP.glob("*/README.md"))
    if page.name not in PAGES
)
"""Pages that are written by hand."""

NAMED_FILE = re.compile(r"(?<![\w/.:$-])((?:[\w-]+/)+[\w.-]+\.(?:py|lua|md|toml|sh|txt|svg))\b")
NAMED_FOLDER = re.compile(r"`((?:[\w-]+/)+)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
MAX_ARCHITECTURE_WORDS = 1_500


@pytest.mark.parametrize("page", WRITTEN_PAGES, ids=str)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    text = (TOP / page).read_text(encoding="utf-8")
    named = {*NAMED_FILE.findall(text), *NAMED_FOLDER.findall(text)}
    roots = (TOP, TOP / "src" / "sshwarma", TOP / page.parent)
    missing = {
        path
        for path in named
        if "NNN" not in path and not any((root / path).exists() for root in roots)
    }
    assert not missing
    broken = {path for path in LINK.findall(text) if not (TOP / page.parent / path).exists()}
    assert not broken


def test_pages_that_name_no_file_are_noticed() -> None:
    """The patterns above can find something."""
    text = "see `world/gone.py`, [a](gone.md) and `gone/`"
    assert NAMED_FILE.findall(text) == ["world/gone.py"]
    assert NAMED_FOLDER.findall(text) == ["gone/"]
    assert LINK.findall(text) == ["gone.md"]


def test_every_file_of_where_is_found() -> None:
    """The page is a table of questions, each with a file that exists below the sources."""
    text = (TOP / "docs" / "where.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 36
    for _, question, files, opened, _ in rows:
        assert NAMED_FILE.search(files), question
        assert int(opened) >= 1, question


def test_the_architecture_is_read_in_ten_minutes() -> None:
    text = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert len(text.split()) <= MAX_ARCHITECTURE_WORDS


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
