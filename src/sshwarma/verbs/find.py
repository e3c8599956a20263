"""The verb find: the namespace of tools for a task."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.common.limits import MAX_FOUND_NAMESPACES
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, block, line
from sshwarma.tools.namespace_index import index_namespaces
from sshwarma.verbs.arguments import Text
from sshwarma.verbs.namespace import all_listed
from sshwarma.verbs.namespace_views import NamespaceSummary
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import draw_columns, draw_hint, view_for_reader
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.reader import Reader


@dataclass(frozen=True, slots=True)
class NamespaceMatch:
    """A namespace that matches a query.

    Attributes:
        score: from 0 to 1; 1 is the best match.
        why: the reason for the match.
        missing: required states that are not set.
    """

    id: str
    score: float
    why: str
    loaded: bool
    available: bool
    missing: tuple[str, ...]
    description: str


@dataclass(frozen=True, slots=True)
class NamespaceMatches:
    """The namespaces that match a query, best first; all of them if it is empty."""

    query: str
    found: tuple[NamespaceMatch, ...]


@view_for_reader(NamespaceMatches)
def draw_namespace_matches(result: NamespaceMatches, reader: Reader) -> Block:
    """Draw the namespaces that match a query, and the line that loads the best one."""
    if not result.found:
        return block(f"No namespace matches.{reader.hint(' {} lists them all.', 'namespaces')}")
    lines = draw_columns(
        (
            ("ok", "●") if match.loaded else ("dim", "○"),
            ("thing", match.id),
            f"{match.score:.2f}" if result.query else "",
            ("dim", match.why),
            _describe_match(match),
        )
        for match in result.found
    )
    candidate = next(
        (match for match in result.found if not match.loaded and match.available), None
    )
    if result.query and result.found[0].loaded:
        lines.append(line(("dim", f"{result.found[0].id} is loaded already.")))
    elif result.query and candidate is not None:
        lines += draw_hint(reader, "{} loads it.", "load", room=candidate.id)
    return block(*lines)


def _describe_match(match: NamespaceMatch) -> str:
    if match.available:
        return match.description
    reason = f"needs {', '.join(match.missing)}" if match.missing else "unavailable"
    return f"({reason}) {match.description}"


@verb(
    "find",
    section="Inventory",
    needs=Right.ENTER,
    namespace="global",
    tool="find_rooms",
    examples=("/find create a requirement", "/find push my code to the server"),
)
async def find(caller: Caller, query: Text = "") -> NamespaceMatches:
    """Find the namespace of tools for what you want to do.

    Ranks namespaces by the words of their names, keywords, descriptions and tools, and by similar
    words.

    For models:
        Find namespaces of tools for a task.

    Args:
        query: what you want to do, in your own words (default: list all namespaces).
    """
    summaries = {item.id: item for item in await all_listed(caller)}
    offered = await caller.world.memoized(
        ("spaces", caller.room_id), lambda conn: index_namespaces(conn, caller.room_id)
    )
    if not query.strip():
        listed = [summaries[item.id] for item in offered if item.id in summaries]
        return NamespaceMatches("", tuple(_make_match(item, 0.0, "") for item in listed))
    matches = await services_of(caller).search.find(query, offered, MAX_FOUND_NAMESPACES)
    return NamespaceMatches(
        query,
        tuple(
            _make_match(summaries[item.id], round(item.score, 3), item.reason)
            for item in matches
            if item.id in summaries
        ),
    )


def _make_match(namespace: NamespaceSummary, score: float, why: str) -> NamespaceMatch:
    description = namespace.description or namespace.name
    return NamespaceMatch(
        id=namespace.id,
        score=score,
        why=why,
        loaded=namespace.loaded,
        available=namespace.available,
        missing=namespace.missing,
        description=description,
    )
