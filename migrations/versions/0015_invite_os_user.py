"""Add to invites the user of the machine who ran the command that made one.

Rows of the audit say it of those that are there.
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("invites", sa.Column("os_user", sa.Text(), nullable=True))
    # The row of the audit is of the same change, and so of the same time; it ends with the id.
    op.execute(
        "UPDATE invites SET os_user = (SELECT audit.os_user FROM audit"
        " WHERE audit.at = invites.created_at AND audit.door = 'cli' AND audit.verb = 'invite'"
        " AND audit.what LIKE '% ' || invites.id LIMIT 1) WHERE created_by IS NULL"
    )
