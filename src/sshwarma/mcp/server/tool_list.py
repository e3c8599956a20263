"""The tools an agent is shown where it stands: its loadout as MCP knows tools, and pages of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, Tool, ToolAnnotations
from pydantic import ValidationError

from sshwarma.tools.names import NameTable, for_mcp
from sshwarma.verbs.registry import Verb, every_verb
from sshwarma.world.access import TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.loadout import Loadout, LoadoutItem

T = TypeVar("T")

PAGE: Final = 250
"""Entries of a list that one answer holds."""

DESCRIPTION: Final = 4_000
"""Characters of a tool's description that are shown."""

CATALOGUES: Final = 256
"""Catalogues kept; the least recently used goes first."""

BARE: Final = frozenset(
    f"global_{name}" for name in ("list_rooms", "find_rooms", "load_room", "unload_room")
)
"""Tools that are shown under their bare names, as `standing` has them; the others still work."""

_AFTER: Final = "after:"


@dataclass(frozen=True)
class Catalogue:
    """What one agent can call in one room. `tools` are by name, in order."""

    load: Loadout
    tools: tuple[Tool, ...]

    @cached_property
    def names(self) -> NameTable:
        return NameTable(self.load.tools)

    @cached_property
    def signature(self) -> tuple[tuple[str, int], ...]:
        """Equal for catalogues that look alike."""
        return tuple((item.thing.id, item.thing.updated_at) for item in self.load.usable)


class Catalogues:
    """The catalogues of agents and rooms, made anew when a loadout is."""

    def __init__(self) -> None:
        self._scopes: dict[str, TokenScope] = {}
        self._of_verbs: dict[str, Tool] = {}
        for verb in every_verb():
            spec = verb.tool_spec
            if spec is not None:
                name = for_mcp(f"{spec.namespace}:{spec.name}")
                self._scopes[spec.id] = verb.scope
                self._of_verbs[spec.id] = tool_of_verb(verb, name)
        self._made: OrderedDict[tuple[str, str, TokenScope], Catalogue] = OrderedDict()

    async def of(self, caller: Caller) -> Catalogue:
        """What the caller can call where it stands, as far as its token goes."""
        load = await caller.world.loadout(caller.room_id, caller.agent.id)
        key = (caller.room_id, caller.agent.id, caller.scope)
        known = self._made.get(key)
        if known is None or known.load is not load:
            known = self._made[key] = Catalogue(load, self._tools(load, caller.scope))
            if len(self._made) > CATALOGUES:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return known

    def scope_of(self, item: LoadoutItem) -> TokenScope:
        """How far a token must go to call that tool."""
        return self._scopes.get(item.thing.id, TokenScope.ACT)

    def _tools(self, load: Loadout, scope: TokenScope) -> tuple[Tool, ...]:
        found: dict[str, Tool] = {}
        for item in load.usable:
            name = for_mcp(item.thing.label)
            if "." in name and item.thing.id not in BARE and scope.allows(self.scope_of(item)):
                ours = self._of_verbs.get(item.thing.id)
                found.setdefault(name, ours or _of_others(name, item))
        return tuple(found[name] for name in sorted(found))


def tool_of_verb(verb: Verb, name: str, input_schema: dict[str, Any] | None = None) -> Tool:
    """A verb as a tool of that name."""
    return Tool(
        name=name,
        title=verb.summary,
        description=f"{verb.summary}. {verb.detail}".strip(),
        input_schema=input_schema or verb.input_schema,
        output_schema=output_schema(verb.result_adapter.json_schema(mode="serialization")),
        annotations=hints(verb.scope),
    )


def hints(scope: TokenScope, *, ours: bool = True) -> ToolAnnotations:
    """What a client may expect of a tool that needs that scope. What is ours stays in the world
    and can be undone, but building changes what others see."""
    return ToolAnnotations(
        read_only_hint=scope is TokenScope.READ,
        destructive_hint=scope is TokenScope.BUILD if ours else None,
        open_world_hint=not ours,
    )


def output_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a result whose root says that it is an object, as older clients require."""
    return {"type": "object", **schema}


def _of_others(name: str, item: LoadoutItem) -> Tool:
    meta = item.thing.metadata
    schema = meta.get("input_schema")
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        schema = {}
    result = meta.get("output_schema")
    if not isinstance(result, dict) or result.get("type") != "object":
        result = None
    try:
        annotations = ToolAnnotations.model_validate(meta.get("annotations") or {})
    except ValidationError:
        annotations = hints(TokenScope.BUILD, ours=False)
    return Tool(
        name=name,
        description=item.thing.description[:DESCRIPTION] or item.thing.label,
        input_schema={"type": "object", **schema},
        output_schema=result,
        annotations=annotations,
    )


def page(
    entries: Sequence[T], cursor: str | None, name: Callable[[T], str]
) -> tuple[list[T], str | None]:
    """The entries after those a cursor has seen, PAGE at most, and the cursor to go on with.
    `entries` are sorted by `name`: what is added or removed meanwhile repeats and hides nothing.

    Raises:
        MCPError: if that is no cursor of ours.
    """
    rest: Iterable[T] = entries
    if cursor is not None:
        if not cursor.startswith(_AFTER):
            raise MCPError(INVALID_PARAMS, "That is no cursor of this server.")
        seen = cursor.removeprefix(_AFTER)
        rest = (entry for entry in entries if name(entry) > seen)
    shown: list[T] = []
    for entry in rest:
        if len(shown) == PAGE:
            return shown, _AFTER + name(shown[-1])
        shown.append(entry)
    return shown, None
