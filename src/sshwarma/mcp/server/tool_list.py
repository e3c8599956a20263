"""Tool list of an agent: its loadout as MCP tools, in pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

from cachetools import LRUCache
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, Tool, ToolAnnotations
from pydantic import ValidationError

from sshwarma.common.limits import MAX_LISTED_DESCRIPTION_CHARACTERS, MAX_PAGE_ENTRIES
from sshwarma.tools.compact_schema import make_compact_schema
from sshwarma.tools.exact_schema import make_exact_schema
from sshwarma.tools.names import NameTable
from sshwarma.verbs.registry import Verb, every_verb
from sshwarma.world.access import TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.loadout import Loadout, LoadoutItem
from sshwarma.world.tool_names import BARE_PREFIXES, mcp_tool_name

T = TypeVar("T")

MAX_CACHED_TOOL_LISTS: Final = 256
"""Cached tool lists; the least recently used is dropped first."""

BUILTIN_VERBS: Final = (
    "look", "who", "rooms", "join", "say", "tell", "history show", "inv show", "equip", "unequip",
    "namespaces", "find", "load", "unload",
)  # fmt: skip
"""Verbs that `builtin_tools` lists under a bare name. Those that are also tools of a namespace are
not listed a second time; their other names still work."""

_CURSOR_PREFIX: Final = "after:"


@dataclass(frozen=True)
class AgentToolList:
    """Tools that one agent can call in one room, sorted by name."""

    loadout: Loadout
    tools: tuple[Tool, ...]

    @cached_property
    def names(self) -> NameTable:
        """Names of the tools as clients call them."""
        return NameTable(self.loadout.tools)

    @cached_property
    def signature(self) -> tuple[tuple[str, int], ...]:
        """Value that is equal for equal lists."""
        return tuple((item.thing.id, item.thing.updated_at) for item in self.loadout.usable_tools)


class ToolListCache:
    """Cache of tool lists by agent, room and scope; a new loadout replaces its list."""

    def __init__(self) -> None:
        self._scopes: dict[str, TokenScope] = {}
        self._change_scopes: dict[str, TokenScope] = {}
        self._of_verbs: dict[str, Tool] = {}
        self._builtin_ids: set[str] = set()
        self._changing_names: set[str] = set()
        for verb in every_verb():
            spec = verb.tool_spec
            if spec is not None and verb.name in BUILTIN_VERBS:
                self._builtin_ids.add(spec.id)
            if spec is not None:
                name = mcp_tool_name(f"{spec.namespace}:{spec.name}")
                self._scopes[spec.id] = verb.scope
                self._change_scopes[spec.id] = verb.change_scope
                self._of_verbs[spec.id] = make_verb_tool(verb, name)
                if verb.change_scope is not TokenScope.READ:
                    self._changing_names |= {name, verb.mcp_tool or name}
        self._lists: LRUCache[tuple[str, str, TokenScope], AgentToolList] = LRUCache(
            MAX_CACHED_TOOL_LISTS
        )

    async def get_tool_list(self, caller: Caller) -> AgentToolList:
        """Return the tools that the caller can call in its room within its token's scope."""
        load = await caller.loadout()
        key = (caller.room_id, caller.agent.id, caller.scope)
        tool_list = self._lists.get(key)
        if tool_list is None or tool_list.loadout is not load:
            tool_list = self._lists[key] = AgentToolList(load, self._tools(load, caller.scope))
        return tool_list

    def scope_of(self, item: LoadoutItem) -> TokenScope:
        """Return the token scope that a tool needs."""
        return self._scopes.get(item.thing.id, TokenScope.ACT)

    def changes(self, item: LoadoutItem) -> bool:
        """Return whether a tool can change something."""
        return self._change_scopes.get(item.thing.id) is not TokenScope.READ

    def is_changing_verb(self, name: str) -> bool:
        """Return whether a name is that of a verb that can change something."""
        return mcp_tool_name(name) in self._changing_names

    def _tools(self, load: Loadout, scope: TokenScope) -> tuple[Tool, ...]:
        tools: dict[str, Tool] = {}
        for item in load.usable_tools:
            name = mcp_tool_name(item.thing.label)
            if (
                is_shown_name(name)
                and item.thing.id not in self._builtin_ids
                and scope.allows(self.scope_of(item))
            ):
                verb_tool = self._of_verbs.get(item.thing.id)
                tools.setdefault(name, verb_tool or _make_external_tool(name, item))
        return tuple(tools[name] for name in sorted(tools))


def is_shown_name(name: str) -> bool:
    """Return whether lists have a tool of that name."""
    return "." in name or name.startswith(BARE_PREFIXES)


def make_verb_tool(verb: Verb, name: str) -> Tool:
    """Return a verb as an MCP tool of that name.

    It has no output schema, although its result has structured content: these schemas would be more
    than half of the tokens of a list.
    """
    return Tool(
        name=name,
        description=verb.program_description,
        input_schema=make_compact_schema(verb.input_schema),
        annotations=make_annotations(verb.change_scope),
    )


def make_annotations(scope: TokenScope, *, is_builtin: bool = True) -> ToolAnnotations:
    """Return the annotations of a tool that needs this scope.

    Our own tools (`is_builtin`) act only within the world and can be undone. Those that need the
    build scope are still marked destructive, because they change what others see.
    """
    is_read_only = scope is TokenScope.READ
    return ToolAnnotations(
        read_only_hint=is_read_only,
        destructive_hint=scope is TokenScope.BUILD if is_builtin and not is_read_only else None,
        open_world_hint=not is_builtin,
    )


def _make_external_tool(name: str, item: LoadoutItem) -> Tool:
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
        annotations = make_annotations(TokenScope.BUILD, is_builtin=False)
    return Tool(
        name=name,
        description=item.thing.description[:MAX_LISTED_DESCRIPTION_CHARACTERS] or item.thing.label,
        input_schema={"type": "object", **make_exact_schema(schema)},
        output_schema=make_exact_schema(result) if result is not None else None,
        annotations=annotations,
    )


def paginate(
    entries: Sequence[T], cursor: str | None, name: Callable[[T], str]
) -> tuple[list[T], str | None]:
    """Return the page after a cursor, at most MAX_PAGE_ENTRIES, and the next cursor.

    `entries` must be sorted by `name`, so that entries added or removed between pages neither
    repeat nor hide others.

    Raises:
        MCPError: if the cursor is invalid.
    """
    rest: Iterable[T] = entries
    if cursor is not None:
        if not cursor.startswith(_CURSOR_PREFIX):
            raise MCPError(INVALID_PARAMS, "Invalid cursor.")
        last_name = cursor.removeprefix(_CURSOR_PREFIX)
        rest = (entry for entry in entries if name(entry) > last_name)
    page: list[T] = []
    for entry in rest:
        if len(page) == MAX_PAGE_ENTRIES:
            return page, _CURSOR_PREFIX + name(page[-1])
        page.append(entry)
    return page, None
