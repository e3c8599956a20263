"""Add to the audit where a change or a login came from.

The address and the key of a connection, and the user of the machine for the command line.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("address", "fingerprint", "os_user"):
        op.add_column("audit", sa.Column(name, sa.Text(), nullable=True))
