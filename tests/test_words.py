"""Words that nobody says or searches for, absent from texts and test names.

The texts are messages, comments and documents.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.source import nodes_of_text

TOP = Path(__file__).parent.parent

BANNED = {
    "whoever": r"\bwho(?:so|m)?ever\b",
    "amid": r"\bamid(?:st)?\b",
    "anew": r"\banew\b",
    "amiss": r"\bamiss\b",
    "is none": r"\b[Ii]s none\b",  # not `is None`
    "is told": r"\b(?:is|are|be|was|were|been) told\b",
    "told of": r"\btold of\b",
    "what is ... is": r"\bwhat is\b[^.;:!?()]{1,80}\bis\b",
    "so many": r"\bso many\b",
    "go on only if": r"\bgo(?:es)? on(?: only)? (?:if|with)\b",
    "go no further": r"\bgo(?:es)? no further\b",
    "half a character": r"\bhalf (?:of )?a character\b",
    "no more": r"\b(?!and )\w+,? no more(?= (?:of|until|is|are)\b|[.,;:!?)]|$)",
    "of before": r"\bof before\b",
    "has one not": r"\b(?:has|have) (?:one|any|some|it|them)(?: of (?:them|these))? not\b",
    "of no known": r"\bof no known\b",
    "take its time": r"\btakes? (?:its|their) time\b",
    "it was begun": r"\bit was begun\b",
    "which is the most": r"\bwhich is the (?:most|least)\b",
    "the most it may be": r"\bthe (?:most|least) (?:it|they) may be\b",
    "no good any more": r"\bno good any ?more\b",
    ", the limit": r", the limit(?=[.;:]|$)",  # write `with_limit`
    "mended": r"\bmended\b",
    "put out": r"\bput out\b",
    "is sent nothing": r"\b(?:is|are|was|were|been) sent (?:nothing|no)\b",
    "no soak": r"\bis no soak\b",
    "what starts no": r"\bwhat starts no\b",
}
"""Each phrase with its pattern. A blank stands for any white space, a line break too."""

_PATTERNS = {
    phrase: re.compile(pattern.replace(" ", r"\s+"), 0 if phrase == "is none" else re.IGNORECASE)
    for phrase, pattern in BANNED.items()
}

_CORES = {
    "whoever": "ever", "is none": "none", "is told": "told", "told of": "told",
    "what is ... is": "what", "so many": "many", "go on only if": "on", "go no further": "further",
    "half a character": "half", "has one not": "not", "take its time": "time",
    "it was begun": "begun",
    "which is the most": "which", "the most it may be": "may", "no good any more": "good",
    ", the limit": "limit", "put out": "put", "is sent nothing": "sent", "no soak": "soak",
    "what starts no": "starts", "no more": "more", "of before": "before", "of no known": "known",
}  # fmt: skip
"""A word of each phrase, if that is not the phrase: only texts with it are searched."""

_COMMENT = re.compile(r"(?:^|\s)#[# ]*(.*)")

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("src/sshwarma/mcp/client/tool_approval.py", "mended"): "a key in stored data",
}
"""The reason of each exception, by file and sentence. Only quotations belong here."""

MARKUP = (".md", ".lua", ".sh", ".toml", ".html", ".css", ".js", ".txt", ".sql")
FOLDERS = ("src", "embedded", "docs", "tests", "benchmarks", "examples", "migrations")


MIN_TEST_NAME_WORDS = 3
"""Words in the name of a test, with `test`: one word alone does not say what is expected."""


def _files() -> list[Path]:
    # `finding` holds the data of a benchmark, `vendor` what others have written.
    left_out = {"__pycache__", "node_modules", "golden", "finding", "vendor"}
    endings = {".py", *MARKUP}
    found = [*TOP.glob("*.md"), TOP / "Makefile", TOP / "pyproject.toml"]
    for folder in FOLDERS:
        for place, folders, names in os.walk(TOP / folder):
            folders[:] = [name for name in folders if name not in left_out]
            found += [Path(place, name) for name in names if Path(name).suffix in endings]
    return sorted(file for file in found if file != Path(__file__))  # it quotes the phrases


FILES = [str(file.relative_to(TOP)) for file in _files()]
TEST_FILES = [name for name in FILES if re.match(r"tests/(.*/)?test_[^/]*\.py$", name)]
TEST_FILES.append("tests/test_words.py")


def _python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Every string and every block of comments, with the line it begins in."""
    inner = {
        id(part)
        for node in nodes_of_text(source)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in nodes_of_text(source):
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "{}"
                    for part in node.values
                ),
            )
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner
        ):
            yield node.lineno, node.value
    yield from _comments(source)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Every block of comments, and what follows a # in a string, which is no harm."""
    block: list[str] = []
    first = 0
    for number, text in enumerate(source.splitlines(), start=1):
        if (found := _COMMENT.search(text)) is None:
            continue
        if not block or number != first + len(block):
            if block:
                yield first, "\n".join(block)
            block, first = [], number
        block.append(found[1])
    if block:
        yield first, "\n".join(block)


@cache
def _texts(file: Path) -> tuple[tuple[int, str], ...]:
    return tuple(_read_texts(file))


def _read_texts(file: Path) -> Iterator[tuple[int, str]]:
    source = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        yield from _python_texts(source)
    elif file.suffix == ".lua":
        yield 1, re.sub(r"^\s*--", "", source, flags=re.MULTILINE)
    elif file.suffix in (".toml", ".sh", ""):  # "": the Makefile
        yield 1, re.sub(r"^[ \t]*#", "", source, flags=re.MULTILINE)
    else:
        yield 1, source


def _sentence(text: str, start: int, end: int) -> str:
    """The sentence around a place, on one line."""
    before = max((m.end() for m in re.finditer(r"[.!?]\s|\n\s*\n", text[:start])), default=0)
    after = re.search(r"[.!?](?:\s|$)|\n\s*\n", text[end:])
    sentence = text[before : end + after.end() if after else len(text)]
    return " ".join(sentence.split())


def _findings(name: str, line: int, text: str) -> Iterator[str]:
    small = text.lower()
    for phrase, pattern in _PATTERNS.items():
        if _CORES.get(phrase, phrase) not in small:
            continue
        for found in pattern.finditer(text):
            sentence = _sentence(text, *found.span())
            if (name, sentence) not in EXCEPTIONS:
                place = line + text.count("\n", 0, found.start())
                yield f"{name}:{place}: `{phrase}` in: {sentence}"


def test_files_contain_no_banned_words() -> None:
    found = [
        finding
        for name in FILES
        for line, text in _texts(TOP / name)
        for finding in _findings(name, line, text)
    ]
    assert not found, "\n".join(["rewrite, by the rules of CONTRIBUTING.md:", *found])


_SUPERLATIVE = "(?:Most|Least|Fewest|Longest|Shortest|Largest|Smallest) (?!recent)"
_FIRST_LINE = re.compile(_SUPERLATIVE)
_ATTRIBUTE_LINE = re.compile(rf"^ +\w+: {_SUPERLATIVE}", re.MULTILINE)


def test_limit_is_explained_as_a_maximum_or_a_minimum() -> None:
    """No docstring, attribute or setting is explained as `Most lines`."""
    found = [
        f"{name}:{line}: {text.strip()}"
        for name in FILES
        if name.endswith(".py")
        for line, text in _texts(TOP / name)
        if text.strip().endswith(".")
        and (_FIRST_LINE.match(text.strip()) or _ATTRIBUTE_LINE.search(text))
    ]
    assert not found, "\n".join(["say Maximum or Minimum:", *found])


@pytest.mark.parametrize("folder", ["settings", "verbs"])
def test_help_texts_name_the_thing(folder: str) -> None:
    """Descriptions of settings, and the first lines of docstrings: no `What`."""
    found = [
        f"{file.name}:{line}: {text}"
        for file in sorted((TOP / "src" / "sshwarma" / folder).glob("*.py"))
        for line, text in _python_texts(file.read_text(encoding="utf-8"))
        if text.strip().startswith("What ") and text.strip().endswith(".")
    ]
    assert not found, "\n".join(["name the thing:", *found])


def _test_names(name: str, source: str) -> Iterator[tuple[int, str]]:
    """Names of a test file and its tests, with lines; underscores become blanks."""
    yield 1, Path(name).stem.replace("_", " ")
    for node in nodes_of_text(source):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("test_"):
            yield node.lineno, node.name.replace("_", " ")


def test_names_of_tests_contain_no_banned_words() -> None:
    found: list[str] = []
    for name in TEST_FILES:
        first, *names = _test_names(name, (TOP / name).read_text(encoding="utf-8"))
        for line, text in (first, *names):
            found += _findings(name, line, text)
        short = (text for _, text in names if len(text.split()) < MIN_TEST_NAME_WORDS)
        found += [f"{name}: too short: {text}" for text in short]
    assert not found, "\n".join(["name the subject and the expectation:", *found])


def test_names_of_test_files_and_functions_are_read() -> None:
    source = "async def test_whoever_asks() -> None: ...\ndef whoever() -> None: ..."
    names = list(_test_names("tests/test_a_b.py", source))
    assert names == [(1, "test a b"), (1, "test whoever asks")]
    assert len(list(_findings("f", 1, names[1][1]))) == 1


@pytest.mark.parametrize(
    ("phrase", "source"),
    [
        ("whoever", '"""Ask\nwhoever is here."""'),
        ("amid", "# it stopped amid the answer\n"),
        ("anew", "x = f'{y} is read anew'"),
        ("amiss", "x = 'something is amiss'"),
        ("is none", "# One thing. Its answer\n# is none by the protocol\n"),
        ("is told", "x = 'a model is ' 'told that'"),
        ("told of", "# agents told of it\n"),
        ("what is ... is", "x = 'what is here now is shown'"),
        ("so many", "x = f'after so many {seconds}'"),
        ("go on only if", "# Go on only with a right\n"),
        ("go no further", "# it goes no further\n"),
        ("half a character", "x = 'that has half a character in it'"),
        ("half a character", "# perhaps half of a character\n"),
        ("no more", "# Wait no more\n"),
        ("no more", "x = f'if {name} has the page no more.'"),
        ("of before", "x = 'sandboxes of before were ended'"),
        ("has one not", "# if the index has one of them not, or not\n"),
        ("of no known", "x = f'{name} is of no known version'"),
        ("take its time", "x = 'tickets takes its time'"),
        ("it was begun", "x = 'where it was begun'"),
        ("which is the most", "x = f'{n} are open, which is the most'"),
        ("the most it may be", "x = f'{n} is over 4, the most it may be'"),
        ("no good any more", "x = f'{n} is no good any more'"),
    ],
)
def test_each_banned_phrase_is_found(phrase: str, source: str) -> None:
    found = [found for at, text in _python_texts(source) for found in _findings("f", at, text)]
    assert len(found) == 1
    assert f"`{phrase}` in: " in found[0]


def test_python_none_and_harmless_words_are_allowed() -> None:
    text = (
        "The value is None. What is it? This is here. Amidala renewed it. What is wrong."
        " It has no more than five, no more input, and no more. Those before have it, not her."
    )
    assert list(_findings("f", 1, text)) == []


def test_each_exception_still_occurs() -> None:
    texts = {name: " ".join((TOP / name).read_text("utf-8").split()) for name, _ in EXCEPTIONS}
    stale = [sentence for name, sentence in EXCEPTIONS if sentence not in texts[name]]
    assert not stale


def test_each_class_has_a_name_of_its_own() -> None:
    """A class that is found by its name is the one that was meant."""
    places: dict[str, list[str]] = {}
    for name in FILES:
        if not (name.startswith("src/") and name.endswith(".py")):
            continue
        for node in nodes_of_text((TOP / name).read_text(encoding="utf-8")):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name)
    found = {name: files for name, files in places.items() if len(files) > 1}
    assert not found
