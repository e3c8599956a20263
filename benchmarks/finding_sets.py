"""Namespaces and queries of benchmarks.finding, and the rates of right answers."""

from __future__ import annotations

import math
import re
import statistics
import time
import tomllib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sshwarma.tools.indexed_namespace import IndexedNamespace
from sshwarma.tools.keywords import match_keywords
from sshwarma.tools.search import NamespaceSearch
from sshwarma.tools.stemming import STOP_WORDS, extract_words, stem
from sshwarma.world.tool_names import model_tool_name

DATA = Path(__file__).parent / "finding"
SIGNATURE = re.compile(r"(\w+)\((.*?)\): (.+)")
BOUNDS = re.compile(r"integer (\d+)\.\.(\d+)")

Wishes = Sequence[tuple[str, str]]
"""Pairs of a query's right namespace and the query."""

Finder = Callable[[str, Sequence[IndexedNamespace]], Awaitable[list[str]]]
"""Returns the ids of the found namespaces, best first."""


def described(text: str) -> dict[str, dict[str, Any]]:
    """Parse argument schemas from lines such as `limit: integer 1..100 — How many`."""
    made: dict[str, dict[str, Any]] = {}
    for line in text.strip().splitlines():
        name, _, rest = line.partition(": ")
        kind, _, description = rest.partition(" — ")
        schema: dict[str, Any]
        if bounds := BOUNDS.fullmatch(kind):
            schema = {"type": "integer", "minimum": int(bounds[1]), "maximum": int(bounds[2])}
        elif kind.startswith("["):
            schema = {"type": "array", "items": {"type": kind.strip("[]")}}
        elif "|" in kind:
            schema = {"type": "string", "enum": kind.split("|")}
        elif kind in ("date", "datetime"):
            schema = {"type": "string", "format": kind.replace("datetime", "date-time")}
        else:
            schema = {"type": kind}
        made[name] = {**schema, "description": description}
    return made


def load() -> tuple[list[IndexedNamespace], dict[str, list[dict[str, Any]]]]:
    """Load the namespaces, and their tools as models see them."""
    read = tomllib.loads((DATA / "namespaces.toml").read_text())
    common = described(read["arguments"])
    spaces, tools = [], {}
    for entry in read["namespace"]:
        known = common | described(entry["arguments"])
        own, lines = [], []
        for line in entry["tools"].strip().splitlines():
            if (parts := SIGNATURE.fullmatch(line)) is None:
                raise ValueError(f"not a tool: {line}")
            name, takes, description = parts.groups()
            arguments = [argument.strip() for argument in takes.split(",") if argument]
            names = [argument.removesuffix("?") for argument in arguments]
            schema = {
                "type": "object",
                "properties": {n: known.get(n, {"type": "string"}) for n in names},
                "required": [argument for argument in arguments if not argument.endswith("?")],
                "additionalProperties": False,
            }
            canonical = model_tool_name(f"{entry['id']}:{name}")
            own.append({"name": canonical, "description": description, "input_schema": schema})
            lines.append(f"{name.replace('_', ' ')}: {description}")
        keywords = tuple(entry["keywords"])
        spaces.append(
            IndexedNamespace(
                entry["id"], entry["name"], entry["description"], keywords, tuple(lines)
            )
        )
        tools[entry["id"]] = own
    return spaces, tools


def wishes(name: str) -> list[tuple[str, str]]:
    """Load pairs of a query's right namespace and the query."""
    lines = (DATA / f"{name}.txt").read_text().splitlines()
    pairs = (line.partition(" | ") for line in lines if line and not line.startswith("#"))
    return [(right, query) for right, _, query in pairs]


def load_servers() -> tuple[list[IndexedNamespace], Wishes]:
    """Load the MCP servers and their queries, with which weights were chosen."""
    spaces, asked = [], []
    for server in tomllib.loads((DATA / "servers.toml").read_text())["server"]:
        name, lines = server["id"], tuple(server["tools"].strip().splitlines())
        spaces.append(
            IndexedNamespace(name, name.replace("_", " "), server["instructions"], (), lines)
        )
        asked += [(name, query) for query in server["queries"].strip().splitlines()]
    return spaces, asked


def load_everyday() -> list[Group]:
    """Load the queries of held_out_3.txt, for namespaces and for MCP servers."""
    asked = wishes("held_out_3")
    servers, _ = load_servers()
    own = [pair for pair in asked if not pair[0].startswith("mcp:")]
    others = [(right[4:], query) for right, query in asked if right.startswith("mcp:")]
    return [
        Group("held_out_3, namespaces", load()[0], own),
        Group("held_out_3, MCP servers", servers, others),
    ]


def has_keyword(query: str, space: IndexedNamespace) -> bool:
    """Return whether a query has a keyword of the namespace, its name not counted."""
    alone = IndexedNamespace("-", "-", "", space.keywords)
    return bool(match_keywords(extract_words(query), [alone]))


@dataclass(frozen=True)
class Group:
    """Queries that are measured together, over some namespaces."""

    name: str
    spaces: Sequence[IndexedNamespace]
    asked: Wishes


def load_groups(split: str) -> list[Group]:
    """Load the queries of a split: all, and those without a namespace keyword.

    In the third group, no namespace has keywords.
    """
    spaces, _ = load()
    by_id = {space.id: space for space in spaces}
    asked = wishes(split)
    plain = [(one, query) for one, query in asked if not has_keyword(query, by_id[one])]
    bare = [replace(space, keywords=()) for space in spaces]
    return [
        Group(f"{split}, all", spaces, asked),
        Group(f"{split}, query without keyword", spaces, plain),
        Group(f"{split}, namespaces without keywords", bare, asked),
    ]


def find_with(search: NamespaceSearch) -> Finder:
    async def find(query: str, spaces: Sequence[IndexedNamespace]) -> list[str]:
        return [match.id for match in await search.find(query, spaces)]

    return find


def plain_bm25(spaces: Sequence[IndexedNamespace]) -> Finder:
    """Rank by BM25 over stems, all texts of a namespace as one: the baseline."""
    texts = [
        Counter(
            stem(word)
            for text in (one.id, one.name, one.description, *one.keywords, *one.tools)
            for word in extract_words(text)
            if word not in STOP_WORDS
        )
        for one in spaces
    ]
    average = sum(text.total() for text in texts) / len(texts)
    having = Counter(word for text in texts for word in text)

    def score(text: Counter[str], words: set[str]) -> float:
        norm = 1.2 * (0.25 + 0.75 * text.total() / average)
        return sum(
            math.log1p((len(texts) - having[word] + 0.5) / (having[word] + 0.5))
            * 2.2 * text[word] / (text[word] + norm)
            for word in words & text.keys()
        )  # fmt: skip

    async def find(query: str, spaces: Sequence[IndexedNamespace]) -> list[str]:
        words = {stem(word) for word in extract_words(query) if word not in STOP_WORDS}
        scores = [(-score(text, words), one.id) for text, one in zip(texts, spaces, strict=True)]
        return [name for negative, name in sorted(scores) if negative < 0]

    return find


async def rate(find: Finder, group: Group) -> tuple[float, float, float]:
    """Return percent right first, percent right in the first three, and ms per query."""
    first = three = 0
    took = []
    for wanted, query in group.asked:
        began = time.perf_counter()
        found = await find(query, group.spaces)
        took.append(time.perf_counter() - began)
        first += found[:1] == [wanted]
        three += wanted in found[:3]
    count = len(group.asked)
    return 100 * first / count, 100 * three / count, statistics.median(took) * 1e3
