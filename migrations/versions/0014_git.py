"""Keep what `git push` brought, and the names of agents in commits.

With both, the commits of a room are made again with the same ids.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "git_pushes",
        sa.Column("manifest_id", sa.Text(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
        sa.Column("pack_sha256", sa.Text(), nullable=False),
        sa.Column("pack_size", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["manifest_id"], ["manifests.id"], name=op.f("fk_git_pushes_manifest_id")
        ),
        sa.PrimaryKeyConstraint("manifest_id", name=op.f("pk_git_pushes")),
    )
    op.create_table(
        "git_authors",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("since", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["things.id"], name=op.f("fk_git_authors_agent_id")),
        sa.PrimaryKeyConstraint("agent_id", "since", name=op.f("pk_git_authors")),
    )
