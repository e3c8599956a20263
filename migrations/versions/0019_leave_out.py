"""Store what people decided to leave out of a tool's results apart from what the tool declares.

Earlier versions stored it in the metadata of the tool, where only people wrote it.
"""

import json
import uuid

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tool_overrides", sa.Column("leave_out", sa.Text()))
    connection = op.get_bind()
    tools = connection.execute(
        sa.text(
            "SELECT id, qualified_name, metadata, deleted_at FROM things"
            " WHERE kind = 'tool' AND qualified_name IS NOT NULL AND metadata LIKE '%leave_out%'"
        )
    ).all()
    for tool_id, name, text, deleted_at in tools:
        stored = _read_object(text)
        mode, amount = stored.pop("leave_out", None), stored.pop("short_amount", None)
        if not isinstance(mode, str):
            continue
        connection.execute(
            sa.text("UPDATE things SET metadata = :metadata WHERE id = :id"),
            {"id": tool_id, "metadata": json.dumps(stored, ensure_ascii=False)},
        )
        if deleted_at is None:
            _decide(connection, name, mode, amount)


def _decide(connection: sa.Connection, name: str, mode: str, amount: object) -> None:
    """Store a decision about the tool of that name."""
    values = {
        "id": uuid.uuid4().hex,
        "toolset_id": name.rpartition(":")[0],
        "tool_id": name,
        "leave_out": json.dumps({"": [mode, amount if isinstance(amount, int) else None]}),
    }
    connection.execute(
        sa.text(
            "INSERT INTO tool_overrides (id, toolset_id, tool_id, leave_out)"
            " VALUES (:id, :toolset_id, :tool_id, :leave_out)"
            " ON CONFLICT (toolset_id, tool_id) DO UPDATE SET leave_out = excluded.leave_out"
        ),
        values,
    )


def _read_object(text: str | None) -> dict[str, object]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
