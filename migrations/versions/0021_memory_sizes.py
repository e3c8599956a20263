"""Add an index of the sizes of earlier values, which stand behind their texts."""

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_memory_versions_size", "memory_versions", ["scope_id", "key", "version", "size"]
    )
