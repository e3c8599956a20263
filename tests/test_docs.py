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
def test_every_file_named_in_a_page_exists(page: Path) -> None:
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


def test_patterns_detect_files_that_a_page_names() -> None:
    """The patterns above can find something."""
    text = "see `world/gone.py`, [a](gone.md) and `gone/`"
    assert NAMED_FILE.findall(text) == ["world/gone.py"]
    assert NAMED_FOLDER.findall(text) == ["gone/"]
    assert LINK.findall(text) == ["gone.md"]


def test_every_row_of_the_where_page_names_a_file() -> None:
    """The page is a table of questions, each with a file that exists below the sources."""
    text = (TOP / "docs" / "where.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 36
    for _, question, files, _ in rows:
        assert NAMED_FILE.search(files), question


def test_architecture_page_is_short_enough() -> None:
    text = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert len(text.split()) <= MAX_ARCHITECTURE_WORDS


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_current(name: str) -> None:
    written = (TOP / "docs" / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "run `make docs`"


def test_verbs_named_in_help_and_readme_exist() -> None:
    shown = [*load_help_topics().values(), (TOP / "README.md").read_text(encoding="utf-8")]
    named = {word for text in shown for word in re.findall(r"(?<![\w/.])/([a-z]+)\b", text)}
    unknown = {word for word in named if find_verb(word) is None}
    assert unknown <= {"healthz", "metrics", "srv", "path", "api", "mcp"}


def test_no_help_topic_has_the_name_of_a_verb() -> None:
    assert not set(load_help_topics()) & set(verb_names())


@pytest.mark.process
def test_commands_named_in_the_readme_exist() -> None:
    text = (TOP / "README.md").read_text(encoding="utf-8")
    commands = set(
        re.findall(r"(?:^|/)sshwarma ((?:keys |agents |config )?[a-z]+)", text, re.MULTILINE)
    )
    assert len(commands) > 5
    for command in commands:
        words = [sys.executable, "-m", "sshwarma.cli", *command.split(), "--help"]
        assert subprocess.run(words, capture_output=True, check=False).returncode == 0, command


def test_example_settings_are_valid() -> None:
    settings = load_settings(TOP / "examples" / "sshwarma.toml")
    assert [model.name for model in settings.models] == ["qwen", "opus"]
    assert settings.registration.mode == "invite"
