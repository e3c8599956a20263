"""Pages agree with the program: generated ones are current, names exist."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
sys.path.insert(0, str(TOP))

from docs.generate import PAGES, limits_page, newest_schema  # noqa: E402 - the path is set above

from sshwarma.common.limit_text import fill_limits  # noqa: E402
from sshwarma.settings import load_settings  # noqa: E402
from sshwarma.ssh.transport.admission import AdmissionLimits  # noqa: E402
from sshwarma.tools.provider import ToolProvider  # noqa: E402
from sshwarma.verbs.called_verb import split_verb  # noqa: E402
from sshwarma.verbs.grammar import parse_call  # noqa: E402
from sshwarma.verbs.help import load_help_topics  # noqa: E402
from sshwarma.verbs.registry import (  # noqa: E402
    every_verb,
    find_entry,
    verb,
    verb_names,
)
from sshwarma.verbs.verb_options import VerbOptions  # noqa: E402
from sshwarma.world.errors import WorldError  # noqa: E402
from sshwarma.world.migrate import newest_schema_file  # noqa: E402
from support.driver.server import forked_program  # noqa: E402

WRITTEN_PAGES = sorted(
    page.relative_to(TOP)
    for page in (*TOP.glob("*.md"), *TOP.glob("docs/**/*.md"), *TOP.glob("*/README.md"))
    if page.name not in PAGES
)
"""Pages that are written by hand."""

NAMED_FILE = re.compile(r"(?<![\w/.:$-])((?:[\w-]+/)+[\w.-]+\.(?:py|lua|md|toml|sh|txt|svg))\b")
NAMED_FOLDER = re.compile(r"`((?:[\w-]+/)+)`")
NAMED_BARE_FILE = re.compile(r"`([\w-]+\.(?:py|lua))`")
NAMED_SYMBOL = re.compile(r"`(?:(?:sshwarma\.)?\w+\.)?([A-Z]\w*[a-z]\w*)(?:\.(\w+))?`")
SYMBOL_OF_FILE = re.compile(r"`([A-Z]\w+|\w+_\w+)(?:\.\w+)*` (?:of |\()`([\w/]+\.py)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
MAX_ARCHITECTURE_WORDS = 1_500

FILES_OF_READERS = {"share.lua"}
"""Files that a reader of a page makes."""

NAMES_OF_LIBRARIES = {
    "Application",
    "AsyncOAuth2Client",
    "OrderedDict",
    "PromptSession",
    "TTLCache",
    "Vt100Parser",
}
"""Classes of other projects that the program does not use."""


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


def _folders_named_in(page: Path, text: str) -> list[Path]:
    """The folders in which a file that the page names without one may be."""
    sources = TOP / "src" / "sshwarma"
    folders = [TOP, sources, TOP / page.parent]
    named = {*NAMED_FOLDER.findall(text), *(str(Path(f).parent) for f in NAMED_FILE.findall(text))}
    return [*folders, *(root / folder for folder in named for root in (TOP, sources))]


@pytest.mark.parametrize("page", WRITTEN_PAGES, ids=str)
def test_every_file_named_without_a_folder_exists(page: Path) -> None:
    """It stands in a folder that the page names, beside the page or at the top."""
    text = (TOP / page).read_text(encoding="utf-8")
    folders = _folders_named_in(page, text)
    named = set(NAMED_BARE_FILE.findall(text)) - FILES_OF_READERS
    assert not {name for name in named if not any((folder / name).exists() for folder in folders)}


@pytest.fixture(scope="module")
def names_in_the_program() -> set[str]:
    """Classes of the program, and names that it or its tests use as attributes."""
    files = [*(TOP / "src").rglob("*.py"), *(TOP / "tests").glob("*/*.py")]
    return {word for file in files for word in re.findall(r"\w+", file.read_text("utf-8"))}


@pytest.mark.parametrize("page", WRITTEN_PAGES, ids=str)
def test_every_class_named_in_a_page_exists(page: Path, names_in_the_program: set[str]) -> None:
    """And what is named as its attribute."""
    found = NAMED_SYMBOL.findall((TOP / page).read_text(encoding="utf-8"))
    named = {name for names in found for name in names if name} - NAMES_OF_LIBRARIES
    unknown = named - names_in_the_program
    assert not unknown


@pytest.mark.parametrize("page", WRITTEN_PAGES, ids=str)
def test_symbols_stand_in_the_files_that_a_page_gives_for_them(page: Path) -> None:
    text = (TOP / page).read_text(encoding="utf-8")
    for symbol, path in SYMBOL_OF_FILE.findall(text):
        roots = (TOP, TOP / "src" / "sshwarma")
        source = next((root / path).read_text("utf-8") for root in roots if (root / path).exists())
        defined = rf"^\s*(?:(?:async )?def|class) {symbol}\b|^\s*{symbol}\b.* = "
        assert re.search(defined, source, re.MULTILINE), f"{symbol} of {path}"


def test_contributing_page_names_every_member_of_a_tool_provider() -> None:
    text = (TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")
    members = [name for name in vars(ToolProvider) if not name.startswith("_")]
    assert len(members) >= 4
    assert not [name for name in members if f"`{name}`" not in text]


def test_contributing_page_says_how_a_right_is_declared() -> None:
    text = (TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## Add a verb")[2].partition("\n## ")[0]
    for name in ("needs", "also_needs", "scope", "section", "examples"):
        assert name in VerbOptions.__annotations__ or name in inspect.signature(verb).parameters
        assert f"`{name}`" in section, name
    tables = (TOP / "tests" / "verbs" / "test_rights.py").read_text(encoding="utf-8")
    for name in ("NEEDS", "REFUSED_IN_A_WORLD_OF_OTHERS"):
        assert f"`{name}`" in section and f"\n{name} = " in tables


def test_patterns_detect_symbols_and_bare_files_that_a_page_names() -> None:
    text = "see `gone.py`, `Gone`, `world.Gone`, `Gone.call`, `Gone` of `a/b.py` and `x_y` (`c.py`)"
    assert NAMED_BARE_FILE.findall(text) == ["gone.py", "c.py"]
    assert set(NAMED_SYMBOL.findall(text)) == {("Gone", ""), ("Gone", "call")}
    assert SYMBOL_OF_FILE.findall(text) == [("Gone", "a/b.py"), ("x_y", "c.py")]


def test_patterns_detect_files_that_a_page_names() -> None:
    """The patterns above can find something."""
    text = "see `world/gone.py`, [a](gone.md) and `gone/`"
    assert NAMED_FILE.findall(text) == ["world/gone.py"]
    assert NAMED_FOLDER.findall(text) == ["gone/"]
    assert LINK.findall(text) == ["gone.md"]


def test_every_row_of_the_where_page_names_a_file() -> None:
    """The page is a table of questions, each with a file that exists in the sources."""
    text = (TOP / "docs" / "where.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 36
    for _, question, files, _ in rows:
        assert NAMED_FILE.search(files), question


def test_where_page_names_the_file_that_declares_a_verb() -> None:
    text = (TOP / "docs" / "where.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")][2:]
    verbs = {verb.name: verb for verb in every_verb()}
    checked = 0
    for _, question, files, _ in rows:
        if not question.startswith(" `/"):
            continue
        for words in re.findall(r"`/([a-z ]+?)(?: [A-Z@].*?)?`", question):
            verb = verbs.get(words) or next(
                (one for name, one in verbs.items() if words.startswith(f"{name} ")), None
            )
            if verb is None:
                group = [one for name, one in verbs.items() if name.startswith(f"{words} ")]
                assert group, f"/{words} is no verb"
                verb = group[0]
            place = Path(inspect.unwrap(verb.run).__code__.co_filename)
            assert f"`{place.parent.name}/{place.name}`" in files, f"/{words}: {files}"
            checked += 1
    assert checked >= 12


def test_architecture_page_is_short_enough() -> None:
    text = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert len(text.split()) <= MAX_ARCHITECTURE_WORDS


def test_schema_of_new_databases_is_current() -> None:
    assert newest_schema_file().read_text(encoding="utf-8") == newest_schema()


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_current(name: str) -> None:
    written = (TOP / "docs" / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "run `make docs`"


def test_verbs_named_in_help_and_readme_exist() -> None:
    shown = [*load_help_topics().values(), (TOP / "README.md").read_text(encoding="utf-8")]
    named = {word for text in shown for word in re.findall(r"(?<![\w/.])/([a-z]+)\b", text)}
    unknown = {word for word in named if find_entry(word) is None}
    assert unknown <= {"healthz", "metrics", "srv", "path", "api"}


def test_lines_of_help_and_readme_parse_as_typed() -> None:
    """An indented `/…` line can be typed: its verb, flags and arguments exist."""
    texts = {**load_help_topics(), "README": (TOP / "README.md").read_text(encoding="utf-8")}
    refused = {}
    lines = [(name, line) for name, text in texts.items() for line in typed_lines(text)]
    assert len(lines) > 80
    for name, line in lines:
        try:
            known, start = split_verb(line)
            parse_call(known, line, start)
        except WorldError as error:
            refused[f"{name}: {line}"] = error.message
    assert refused == {}


TYPED_LINE = re.compile(r"^(?: {2,}|[a-z]+> )(/[a-z].*)$", re.MULTILINE)


def typed_lines(text: str) -> Iterator[str]:
    """The lines that a text shows as typed, without the remarks beside them."""
    for shown in TYPED_LINE.findall(re.sub(r" *\\\n *", " ", text)):
        line = re.split(r" {2,}", shown)[0]
        yield from (f"/{part}" for part in line.removeprefix("/").split(", /"))


def test_typed_lines_are_found() -> None:
    text = "  /a b \\\n    --c d   remark\n\n/no line\n  /e f, /g   remark\nlobby> /h   i\n"
    assert list(typed_lines(text)) == ["/a b --c d", "/e f", "/g", "/h"]


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
        words = [str(forked_program()), *command.split(), "--help"]
        assert subprocess.run(words, capture_output=True, check=False).returncode == 0, command


def test_example_settings_are_valid() -> None:
    settings = load_settings(TOP / "examples" / "sshwarma.toml")
    assert [model.name for model in settings.models] == ["qwen", "opus"]
    assert settings.registration.mode == "invite"


def test_every_limit_of_the_ssh_server_is_listed() -> None:
    numbers = [
        field.name for field in fields(AdmissionLimits) if type(field.default) in (int, float)
    ]
    assert len(numbers) > 10
    assert not [name for name in numbers if f"| `{name}` |" not in limits_page()]


FIGURES = {
    # Sentences of written pages with a limit in them, each by the name of its constant.
    "security.md": (
        "sends no request head in {HTTP_HEAD_TIMEOUT_SECONDS}, or no body in"
        " {HTTP_BODY_TIMEOUT_SECONDS}, is closed. {MAX_HTTP_CONNECTIONS} are open at most,"
        " {MAX_API_REQUESTS_PER_AGENT} of them",
        "and {DEFAULT_HTTP_CONNECTIONS_PER_ADDRESS} of one address.",
        "has not arrived in {SAFE_HTTP_INPUT_SECONDS},",
        "longer than {REPORT_TIMEOUT_SECONDS} or more than {MAX_REPORT_MEMORY_BYTES}",
        "ends within {SIGN_IN_TIMEOUT_SECONDS}.",
    ),
    "mcp.md": (
        "for {STAY_AFTER_REQUEST_SECONDS} after its last request",
        "in a fixed order, {MAX_PAGE_ENTRIES} to a page",
        "waits up to {MAX_WAIT_SECONDS} for the first event",
        "Messages {MAX_CLIENT_MESSAGE_BYTES}; {MAX_OPEN_REQUESTS_PER_AGENT} requests and streams,"
        " {MAX_MCP_SESSIONS_PER_AGENT} sessions of the older era and"
        " {MAX_CLIENT_CALLS_PER_AGENT} calls at a time, {MAX_SUBSCRIBED_RESOURCES} subscriptions",
    ),
}
FIGURE_WITH_UNIT = re.compile(r"\d[\d,.]* (?:s|KiB|MiB|seconds|minutes)\b")
NOT_LIMITS = {"20 MiB"}  # what the SDK takes in memory


@pytest.mark.parametrize("page", FIGURES)
def test_figures_of_written_pages_are_those_of_the_program(page: str) -> None:
    text = " ".join((TOP / "docs" / page).read_text(encoding="utf-8").split())
    for sentence in FIGURES[page]:
        filled = fill_limits(sentence)
        assert filled in text
        text = text.replace(filled, "")
    assert set(FIGURE_WITH_UNIT.findall(text)) <= NOT_LIMITS, "a figure without its constant"


DECISIONS = sorted((TOP / "docs" / "decisions").glob("*.md"))


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name[:3])
def test_decision_has_its_number_and_what_would_change_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.match(rf"# {page.name[:3]} [^\s:]", text)
    assert re.search(r"^## What would change it\n\n\S", text, re.MULTILINE)


def test_world_is_deleted_by_the_last_command_of_uninstall_alone() -> None:
    page = (TOP / "docs" / "operating.md").read_text(encoding="utf-8")
    section = page.partition("## Uninstall\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert blocks[-1] == "rm -r /var/lib/sshwarma\n"
    assert not [block for block in blocks[:-1] if "/var/lib" in block]
    assert "deletes the world" in section.rpartition("```sh")[0]
    assert "[backup]" in section


def logged_events() -> set[str]:
    """Return the events that the program logs."""
    levels = {"info", "warning", "error", "exception", "critical"}
    events = set()
    for path in (TOP / "src").rglob("*.py"):
        tree = ast.parse(path.read_text())
        texts = {}  # constants of the module, by name
        for statement in tree.body:
            match statement:
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text))):
                    texts[name] = text
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="_log"), attr="note")):
                    events.add(ast.literal_eval(node.args[0]))
                case ast.keyword(arg="failed", value=ast.Constant(value=str(event))):
                    events.add(event)  # of a background task
                case ast.keyword(arg="failed", value=ast.Name(id=name)) if name in texts:
                    events.add(texts[name])
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="log"), attr=level),
                    args=[ast.Constant(value=str(event)), *_],
                ) if level in levels:
                    events.add(event)
    return events


def test_events_of_the_log_are_explained() -> None:
    page = (TOP / "docs" / "operating.md").read_text()
    events = logged_events()
    assert len(events) > 80
    assert {"ssh.refused", "the last use of a key or token was not recorded"} <= events
    assert [event for event in sorted(events) if f"`{event}`" not in page] == []
