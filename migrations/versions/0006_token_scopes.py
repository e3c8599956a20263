"""Add the scope of a token; existing tokens keep all rights of their agents."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tokens", sa.Column("scope", sa.Text(), nullable=False, server_default="build"))
