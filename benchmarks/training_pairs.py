"""Pairs of a sentence and the text that it should find."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PAIRS: Final = Path(__file__).parent / "finding" / "pairs.txt"

Pair = tuple[str, str]
"""A sentence, and a text that describes what does it."""

Pairs = dict[str, list[Pair]]
"""Pairs by the tool that is meant: those of one tool are never each other's wrong answers."""

_PARTS: Final = re.compile(
    r"^(lib|python|golang|node|ruby|r-|rust|haskell|texlive|fonts|task|gir|php|elpa|linux|kde-l|"
    r"firefox|thunderbird|gcc|binutils|cpp|ghc|aspell|hunspell|myspell|hyphen|mythes|ttf|xfonts)|"
    r"-(dev|dbg|doc|data|common|perl|java|examples|l10n|dkms|plugins?|theme|tests?|tools-data)\b|"
    r"-(ocaml|dictionary|source|lang|dbgsym|runtime|headers|modules?|base|core|bin)\b"
)
"""Packages that are parts of others, or libraries."""


def read_own(file: Path = PAIRS) -> Pairs:
    """Read the pairs of this repository: sentences with a namespace and with a tool."""
    pairs: Pairs = {}
    name, description, tools = "", "", [""]
    for line in file.read_text().splitlines():
        if line.startswith("## "):
            name, _, description = line[3:].partition(": ")
        elif line.startswith("> "):
            tools = [tool.strip() for tool in line[2:].split(";")]
        elif line and not line.startswith("#"):
            query, _, number = line.partition(" | ")
            own = pairs.setdefault(name, [])
            own += [(query, tools[int(number) - 1]), (query, f"{name}. {description}")]
    return pairs


def read_packages(file: Path) -> Pairs:
    """Read Debian's package descriptions: what a package can do, with what it is.

    The file is apt's list `Translation-en`, unpacked. Each point of a description stands for a
    task, and so does the summary, which has the sentences after it as its text.
    """
    pairs: Pairs = {}
    seen: set[str] = set()
    for entry in file.read_text(encoding="utf-8").split("\n\n"):
        name, _, rest = entry.removeprefix("Package: ").partition("\n")
        summary, _, body = rest.partition("Description-en: ")[2].partition("\n")
        if _PARTS.search(name) or not body or summary in seen:
            continue
        seen.add(summary)
        prose = re.split(r"\n \.|\n  ", f"\n{body}")[0]
        text = " ".join(prose.split())[:300]
        own = [(summary, text)] if len(text) > 40 else []
        for point in re.findall(r"^ +[*-] ((?:.*)(?:\n   .*)*)", body, re.M)[:4]:
            task = " ".join(point.split()).rstrip(".;,")
            if 3 <= len(task.split()) <= 20 and task.isascii():
                own.append((task, f"{name}. {summary}"))
        if own:
            pairs[name] = own
    return pairs


def list_texts(sources: dict[str, Pairs]) -> list[str]:
    """Return all sentences and texts once, in order."""

    def walk() -> Iterator[str]:
        for pairs in sources.values():
            for own in pairs.values():
                for pair in own:
                    yield from pair

    return sorted(set(walk()))
