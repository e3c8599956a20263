"""The initial tree of a world, and the built-in tools that its verbs declare.

Runs at every start. Adds missing parts, retires tools whose verb is gone, and leaves everything
that people made or changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from sqlalchemy import insert, select, update

from sshwarma.world import calls, equipment, things, turns
from sshwarma.world.access import Right
from sshwarma.world.builtin_containers import (
    BUILTIN_NAMESPACES,
    DEFAULTS_ID,
    FILES_ID,
    GLOBAL_ID,
    INTERNAL_ID,
    MEMORY_ID,
    TOOLSET_TOOLS_ID,
)
from sshwarma.world.equipment import AGENTS_IN_ROOMS
from sshwarma.world.ids import HOME_ID, LOBBY_ID
from sshwarma.world.leave_out import declare_policies
from sshwarma.world.overrides import CONFIRM_KEY
from sshwarma.world.schema import equipped
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change
from sshwarma.world.things import Thing, ThingKind

CONTAINERS: Final = (
    "rooms", "agents", "mcps", "toolsets", "skills", "projects", *BUILTIN_NAMESPACES,
    DEFAULTS_ID, "directs", AGENTS_IN_ROOMS,
)  # fmt: skip
"""Children of `world`.

`global` is the namespace that is loaded everywhere; `directs` holds the logs of private
conversations, one container for each pair; `agents-in-rooms` holds a context for each agent that is
equipped for one room alone.
"""

log = structlog.get_logger(__name__)

_NAMESPACE_DESCRIPTIONS: Final = {
    INTERNAL_ID: "This world's commands: look, move, talk, take notes, make things",
    GLOBAL_ID: "Always loaded: help, search, finding and loading namespaces",
    FILES_ID: "The files of this room: read, write and edit them",
    TOOLSET_TOOLS_ID: "Toolsets of this server: import, export, enable and uninstall them",
    MEMORY_ID: "Memory: texts by key, of this room and of its project; edit them line by line",
}
"""The descriptions of the built-in namespaces, by the id of their container."""

_TOOL_ID_PREFIXES: Final = {
    INTERNAL_ID: "tool_",
    GLOBAL_ID: "global_",
    FILES_ID: "workspace_",
    TOOLSET_TOOLS_ID: "toolsets_",
    MEMORY_ID: "memory_",
}
"""Beginnings of the ids of built-in tools, by the id of their container."""

MODEL_TEXTS_KEY: Final = "for_models"
"""Key of a tool's metadata: what models read in place of its description and schema."""

PRIVATE_ARGUMENTS_KEY: Final = "private_with"
NEEDED_RIGHTS_KEY: Final = "needs"
"""Key of a tool's metadata: rights without which a model is not offered it."""


@dataclass(frozen=True, slots=True)
class BuiltinToolSpec:
    """A built-in tool as a verb declares it.

    Attributes:
        namespace: `sshwarma` (kept in `internal`), `global` or `workspace`.
        description: what people read in lists.
        default: whether new rooms have it equipped.
        model_description: what models read; "" for the description.
        model_arguments: what models read about parameters, by name, in place of the descriptions
            in the schema; None for these.
        rarely_used: parameters that lists of tools for models leave out.
        covered_by: name of the tool of its namespace that does the same for models, which are not
            offered both.
        private_with: arguments whose calls are private: the log of the room shows neither what
            they were given nor what they returned.
        needs: rights without which it is of no use to a model, which is not offered it then.
        needs_approval: whether a person must allow each call, unless they make it themselves.
        leave_out: what models read of its calls once their turn is over, such as `SHORT 500`; ""
            for the default.
    """

    namespace: str
    name: str
    description: str
    input_schema: dict[str, Any]
    default: bool = False
    model_description: str = ""
    model_arguments: Mapping[str, str] | None = None
    rarely_used: tuple[str, ...] = ()
    covered_by: str = ""
    private_with: tuple[str, ...] = ()
    needs: tuple[Right, ...] = ()
    needs_approval: bool = False
    leave_out: str = ""

    @property
    def id(self) -> str:
        """Id of the tool's thing; people's things have random ids."""
        return f"{_TOOL_ID_PREFIXES[self.parent_id]}{self.name}"

    @property
    def parent_id(self) -> str:
        """Id of the container of the tool's namespace."""
        return next(id for id, name in BUILTIN_NAMESPACES.items() if name == self.namespace)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata that the program keeps up to date in the tool's thing."""
        texts = {
            "description": self.model_description,
            "arguments": None if self.model_arguments is None else dict(self.model_arguments),
            "rarely_used": list(self.rarely_used),
            "covered_by": f"{self.namespace}:{self.covered_by}" if self.covered_by else "",
        }
        return {
            "input_schema": self.input_schema,
            MODEL_TEXTS_KEY: texts,
            NEEDED_RIGHTS_KEY: list(self.needs),
            PRIVATE_ARGUMENTS_KEY: list(self.private_with),
            CONFIRM_KEY: self.needs_approval,
            **declare_policies(self.leave_out),
        }


def is_private_call(tool: Thing, arguments: Mapping[str, Any], *, is_refused: bool = False) -> bool:
    """Return whether the room's log must not show a call and its result.

    A refused call may have the private text under a wrong name or in place of a number.
    """
    names = tool.metadata.get(PRIVATE_ARGUMENTS_KEY) or ()
    if any(arguments.get(name) is not None for name in names):
        return True
    return bool(names) and is_refused and not _has_only_public_texts(tool, arguments, names)


def _has_only_public_texts(
    tool: Thing, arguments: Mapping[str, Any], private_names: Iterable[str]
) -> bool:
    """Return whether each text of a refused call is one that a good call would show."""
    schema = tool.metadata.get("input_schema") or {}
    if not set(private_names).isdisjoint(schema.get("required") or ()):
        return False  # every good call of this tool is private
    properties = schema.get("properties") or {}
    return all(
        name in properties
        and (
            value is None
            or isinstance(value, int)
            or (isinstance(value, str) and _takes_text(properties[name]))
        )
        for name, value in arguments.items()
    )


def _takes_text(schema: Mapping[str, Any]) -> bool:
    return any(one.get("type") == "string" for one in (schema, *(schema.get("anyOf") or ())))


def is_of_use(tool: Thing, rights: frozenset[Right]) -> bool:
    """Return whether these rights allow a model at least one call of a tool."""
    return rights.issuperset(tool.metadata.get(NEEDED_RIGHTS_KEY) or ())


def start_world(tx: Change, tools: Iterable[BuiltinToolSpec]) -> None:
    """End what a server that was killed left open, and create what is missing."""
    calls.end_open_calls(tx)  # first: a turn ends after its calls
    turns.cancel_open_turns(tx)
    bootstrap_world(tx, tools)


def bootstrap_world(tx: Change, tools: Iterable[BuiltinToolSpec]) -> bool:
    """Create the missing parts of the tree; return whether the world is new.

    `tools` are all built-in tools of the program: those of the world that are not among them are
    retired. If it is empty, no tool is retired.
    """
    taken = _find_taken_namespaces(tx)
    specs = [spec for spec in tools if spec.parent_id not in taken]
    well_known = ("world", *CONTAINERS, HOME_ID, LOBBY_ID, *(spec.id for spec in specs))
    things_by_id = things.get_things(tx.conn, well_known)
    for name in ("world", *CONTAINERS, HOME_ID, LOBBY_ID):
        if name in things_by_id and things_by_id[name].deleted_at is not None:
            # Only an edited database has it so: without the lobby nobody could do anything.
            things_by_id[name] = things.restore_thing(tx, things_by_id[name])
    is_new = "world" not in things_by_id
    if is_new:
        tx.conn.execute(
            insert(things_table).values(
                id="world", kind="container", name="world", created_at=tx.now, updated_at=tx.now
            )
        )
    for name in CONTAINERS:
        if name not in things_by_id and name not in taken:
            _create_thing(tx, "world", "container", name, auto_load=name == GLOBAL_ID)
    for name, description in _NAMESPACE_DESCRIPTIONS.items():
        if name not in taken and not things.get_live_thing(tx.conn, name).description:
            things.update_thing(tx, name, description=description)
    for spec in specs:
        _ensure_tool(tx, spec, things_by_id.get(spec.id))
    _equip_defaults(tx, [spec.id for spec in specs if spec.default])
    if specs:
        _retire_tools(tx, {spec.id for spec in specs})
    if HOME_ID not in things_by_id:
        _create_thing(tx, "world", "room", HOME_ID, metadata={"vibe": "Shared resources"})
    if LOBBY_ID not in things_by_id:
        _create_thing(tx, "rooms", "room", LOBBY_ID, metadata={"vibe": "Welcome to sshwarma"})
        equipment.copy_equipment(tx, DEFAULTS_ID, LOBBY_ID)
        equipment.copy_equipment(tx, DEFAULTS_ID, HOME_ID)
    return is_new


def _find_taken_namespaces(tx: Change) -> set[str]:
    """Return the ids of built-in namespaces whose name something of people has.

    A world that is older than the namespace keeps what is called so; the tools of the namespace
    come with the next start after that has another name.
    """
    query = select(things_table.c.qualified_name, things_table.c.id).where(
        things_table.c.qualified_name.in_(BUILTIN_NAMESPACES.values()),
        things_table.c.deleted_at.is_(None),
    )
    ids = {name: container_id for container_id, name in BUILTIN_NAMESPACES.items()}
    taken = {
        ids[row.qualified_name] for row in tx.conn.execute(query) if row.id not in ids.values()
    }
    for container_id in sorted(taken):
        name = BUILTIN_NAMESPACES[container_id]
        log.warning("built-in tools left out: their namespace has a name that is taken", name=name)
    return taken


def _create_thing(
    tx: Change,
    parent_id: str,
    kind: ThingKind,
    name: str,
    *,
    auto_load: bool = False,
    metadata: dict[str, Any] | None = None,
) -> None:
    """Create a well-known thing, whose id is its name."""
    things.create_thing(
        tx,
        parent_id,
        kind,
        name,
        id=name,
        qualified_name=BUILTIN_NAMESPACES.get(name),
        auto_load=auto_load,
        metadata=metadata,
    )


def _ensure_tool(tx: Change, spec: BuiltinToolSpec, known: Thing | None) -> None:
    if known is not None and known.deleted_at is not None and known.metadata.get("retired"):
        known = _restore_tool(tx, known)
    if known is None:
        things.create_thing(
            tx,
            spec.parent_id,
            "tool",
            spec.name,
            id=spec.id,
            qualified_name=f"{spec.namespace}:{spec.name}",
            description=spec.description,
            metadata=spec.metadata,
        )
    elif known.deleted_at is None and (
        known.description != spec.description
        or any(known.metadata.get(key) != value for key, value in spec.metadata.items())
    ):
        # The program's declarations of its own tools overwrite the row; switches in the row stay,
        # and so do decisions of people, which are stored apart (`world/overrides.py`).
        things.update_thing(
            tx, spec.id, description=spec.description, metadata={**known.metadata, **spec.metadata}
        )


def _equip_defaults(tx: Change, tool_ids: Sequence[str]) -> None:
    """Equip what new rooms get, except what somebody has removed from it."""
    query = select(equipped.c.thing_id).where(equipped.c.context_id == DEFAULTS_ID)
    thing_ids = set(tx.conn.scalars(query))
    for tool_id in tool_ids:
        if tool_id not in thing_ids:
            tx.conn.execute(
                insert(equipped).values(context_id=DEFAULTS_ID, thing_id=tool_id, created_at=tx.now)
            )


def _retire_tools(tx: Change, spec_ids: set[str]) -> None:
    """Soft-delete the built-in tools that no verb declares, with their equipment.

    Their metadata gets the key `retired`, so that a verb that returns restores them.

    Built-in tools have an id of `BuiltinToolSpec.id` and no author, so nothing that people made
    is among them.
    """
    for parent_id, prefix in _TOOL_ID_PREFIXES.items():
        builtin_ids = tx.conn.scalars(
            select(things_table.c.id).where(
                things_table.c.parent_id == parent_id,
                things_table.c.kind == "tool",
                things_table.c.id.startswith(prefix, autoescape=True),
                things_table.c.created_by.is_(None),
                things_table.c.deleted_at.is_(None),
            )
        )
        for tool_id in sorted(set(builtin_ids) - spec_ids):
            tool = things.get_live_thing(tx.conn, tool_id)
            things.set_metadata(tx, tool.id, retired=True)
            things.delete_thing(tx, tool)
            tx.conn.execute(
                update(equipped)
                .where(equipped.c.thing_id == tool.id, equipped.c.deleted_at.is_(None))
                .values(deleted_at=tx.now)
            )


def _restore_tool(tx: Change, tool: Thing) -> Thing:
    """Restore a retired tool, and the equipment that was retired with it."""
    things.restore_thing(tx, tool)
    tx.conn.execute(
        update(equipped)
        .where(equipped.c.thing_id == tool.id, equipped.c.deleted_at == tool.deleted_at)
        .values(deleted_at=None)
    )
    return things.set_metadata(tx, tool.id, retired=None)
