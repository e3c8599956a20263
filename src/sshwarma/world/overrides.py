"""People's decisions about a tool, stored apart from its provider's declaration.

They are whether the tool is enabled, another description of it, what models read of its calls, and
so on. If a provider returns with a new version of its tools, the decisions still apply.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from sshwarma.common.visible_nul import replace_nul
from sshwarma.world.events import WorldChanged
from sshwarma.world.ids import new_id
from sshwarma.world.schema import tool_overrides
from sshwarma.world.store import Change
from sshwarma.world.stored_json import dump_metadata, read_object_or_none
from sshwarma.world.things import Thing


@dataclass(frozen=True, slots=True)
class Override:
    """The decisions about one tool; None keeps the provider's declaration.

    `name` is for display only; the tool is called by its own name. `leave_out` has the policies of
    `world.leave_out` by action, with "" for the whole tool.
    """

    tool: str  # its qualified name
    enabled: bool | None = None
    name: str | None = None
    description: str | None = None
    requires_confirmation: bool | None = None
    renderer: str | None = None
    renderer_config: dict[str, Any] | None = None
    leave_out: dict[str, Any] | None = None


CONFIRM_KEY: Final = "requires_confirmation"
"""Key of a tool's metadata: whether a person must allow each call."""

_NO_OVERRIDE: Final = Override("")

_COLUMNS: Final = {
    "enabled": "enabled",
    "name": "name_override",
    "description": "description_override",
    "requires_confirmation": "requires_confirmation",
    "renderer": "renderer",
    "renderer_config": "renderer_config",
    "leave_out": "leave_out",
}


def read_overrides(conn: Connection) -> dict[str, Override]:
    """Every decision, by the qualified name of its tool."""
    rows = conn.execute(select(tool_overrides)).mappings()
    return {row["tool_id"]: _override_from_row(row) for row in rows}


def read_namespace_overrides(conn: Connection, namespace: str) -> list[Override]:
    """Return the decisions about tools of a namespace, existing or not."""
    query = select(tool_overrides).where(tool_overrides.c.toolset_id == namespace)
    rows = conn.execute(query.order_by(tool_overrides.c.tool_id)).mappings()
    return [_override_from_row(row) for row in rows]


def read_tool_override(conn: Connection, tool: Thing) -> Override:
    """Return the decisions about a tool."""
    query = select(tool_overrides).where(tool_overrides.c.tool_id == tool.label)
    row = conn.execute(query).mappings().first()
    return _override_from_row(row) if row else Override(tool.label)


def set_override(tx: Change, tool: Thing | str, **decisions: Any) -> None:
    """Set fields of an Override; None withdraws a decision.

    Args:
        tx: the change.
        tool: the tool, or its qualified name if it may not exist yet: then it has the decisions
            from the start.
        decisions: values by the names of the fields.

    Raises:
        KeyError: if a field does not exist.
    """
    values: dict[str, Any] = {}
    for field, decision in decisions.items():
        if isinstance(decision, bool):
            decision = int(decision)
        elif isinstance(decision, str):
            decision = replace_nul(decision)
        values[_COLUMNS[field]] = (
            dump_metadata(decision) if isinstance(decision, dict) else decision
        )
    name, place = (tool, None) if isinstance(tool, str) else (tool.label, tool.parent_id)
    namespace = name.rpartition(":")[0]
    key = (tool_overrides.c.toolset_id == namespace, tool_overrides.c.tool_id == name)
    if tx.conn.execute(update(tool_overrides).where(*key).values(**values)).rowcount == 0:
        row = {"id": new_id(), "toolset_id": namespace, "tool_id": name, **values}
        tx.conn.execute(insert(tool_overrides).values(row))
    tx.publish_on_commit(WorldChanged(place))


def clear_override(tx: Change, tool: Thing) -> None:
    """Withdraw every decision, so that a new tool does not inherit an older one's."""
    tx.conn.execute(delete(tool_overrides).where(tool_overrides.c.tool_id == tool.label))
    tx.publish_on_commit(WorldChanged(tool.parent_id))


def clear_namespace(tx: Change, namespace: str) -> None:
    """Withdraw every decision about tools of a namespace, existing or not."""
    tx.conn.execute(delete(tool_overrides).where(tool_overrides.c.toolset_id == namespace))
    tx.publish_on_commit(WorldChanged())


def apply_override(tool: Thing, override: Override | None) -> Thing:
    """Return the tool with people's decisions applied."""
    decisions = override or _NO_OVERRIDE
    confirms = decisions.requires_confirmation
    if decisions.enabled is None and decisions.description is None and confirms is None:
        return tool
    return replace(
        tool,
        metadata=tool.metadata if confirms is None else {**tool.metadata, CONFIRM_KEY: confirms},
        enabled=tool.enabled if decisions.enabled is None else decisions.enabled,
        description=tool.description if decisions.description is None else decisions.description,
    )


def _override_from_row(row: RowMapping) -> Override:
    return Override(
        tool=row["tool_id"],
        enabled=_optional_bool(row["enabled"]),
        name=row["name_override"],
        description=row["description_override"],
        requires_confirmation=_optional_bool(row["requires_confirmation"]),
        renderer=row["renderer"],
        renderer_config=read_object_or_none(row["renderer_config"]) or None,
        leave_out=read_object_or_none(row["leave_out"]) or None,
    )


def _optional_bool(value: int | None) -> bool | None:
    return None if value is None else bool(value)
