"""Store with each tool the names under which models and MCP clients see it, with an index.

A new tool was compared with all tools of the world. The names are made as the program made them at
the time of this migration (`world/tool_names.py`).
"""

import hashlib
import re

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in ("name_for_models", "name_for_mcp"):
        op.add_column("things", sa.Column(column, sa.Text()))
    connection = op.get_bind()
    tools = connection.execute(
        sa.text(
            "SELECT id, qualified_name FROM things"
            " WHERE kind = 'tool' AND qualified_name IS NOT NULL"
        )
    ).all()
    if tools:
        connection.execute(
            sa.text(
                "UPDATE things SET name_for_models = :models, name_for_mcp = :mcp WHERE id = :id"
            ),
            [
                {"id": tool_id, "models": _name_for_models(name), "mcp": _name_for_mcp(name)}
                for tool_id, name in tools
            ],
        )
    for column in ("name_for_models", "name_for_mcp"):
        op.create_index(
            f"ix_things_{column}",
            "things",
            [column],
            sqlite_where=sa.text(f"deleted_at IS NULL AND {column} IS NOT NULL"),
        )


def _name_for_models(canonical: str) -> str:
    namespace, _, tool = canonical.partition(":")
    name = "__".join(re.sub(r"[^A-Za-z0-9_-]", "_", part) for part in (namespace, tool) if part)
    return _cut(name, canonical, 64)


def _name_for_mcp(canonical: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", canonical.replace(":", "."))
    return _cut(name, canonical, 128)


def _cut(name: str, canonical: str, length: int) -> str:
    if len(name) <= length:
        return name
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:8]
    return f"{name[: length - 9]}_{digest}"
