"""Pairs of a sentence and the text that it should find."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PAIRS: Final = tuple(
    Path(__file__).parent / "finding" / name for name in ("pairs.txt", "pairs_2.txt")
)

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


@dataclass(frozen=True)
class TrainingNamespace:
    """A namespace that was made up for training, with its sentences.

    `tools` are texts as the search reads them. A sentence has the place of the tool that it means.
    """

    name: str
    description: str
    tools: list[str] = field(default_factory=list)
    sentences: list[tuple[str, int]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text that stands for the namespace itself."""
        return f"{self.name}. {self.description}"


def read_namespaces(files: Sequence[Path] = PAIRS) -> list[TrainingNamespace]:
    """Read the namespaces of this repository that were made up for training."""
    spaces: list[TrainingNamespace] = []
    for line in (line for file in files for line in file.read_text().splitlines()):
        if line.startswith("## "):
            name, _, description = line[3:].partition(": ")
            spaces.append(TrainingNamespace(name, description))
        elif line.startswith("> "):
            spaces[-1].tools.extend(tool.strip().replace("_", " ") for tool in line[2:].split(";"))
        elif line and not line.startswith("#"):
            query, _, number = line.partition(" | ")
            spaces[-1].sentences.append((query, int(number) - 1))
    return spaces


def read_own(files: Sequence[Path] = PAIRS[:1]) -> Pairs:
    """Read pairs of this repository: sentences with a namespace and with a tool."""
    pairs: Pairs = {}
    for space in read_namespaces(files):
        own = pairs.setdefault(space.name, [])
        for query, tool in space.sentences:
            own += [(query, space.tools[tool]), (query, space.text)]
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
