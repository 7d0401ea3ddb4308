"""Jobs: one row whatever prefix an id is told with, and what the reconciler needs.

Forward only: an older release knows nothing of the two prefixes of one id.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_KEPT = (
    "kind, id, state, event_type, source, error_code, error_message, user_metadata,"
    " created_at, updated_at, expected_at, ours"
)
_ENDED = (
    "'completed', 'succeeded', 'generated', 'failed', 'cancelled', 'expired', 'incomplete',"
    " 'budget_exceeded'"
)


def upgrade() -> None:
    """Make the table anew: a primary key is not altered on SQLite."""
    op.drop_index("ix_jobs_state", "jobs")
    op.rename_table("jobs", "jobs_before")
    _jobs()
    op.execute(
        f"INSERT INTO jobs ({_KEPT}, key, ended_at)"  # noqa: S608 - texts of ours
        f" SELECT {_KEPT}, id, CASE WHEN state IN ({_ENDED}) THEN updated_at END FROM jobs_before"
    )
    op.drop_table("jobs_before")


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("event_type", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("error_code", sa.Text),
        sa.Column("error_message", sa.Text),
        sa.Column("user_metadata", sa.JSON(none_as_null=True)),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.Column("expected_at", sa.Double),
        sa.Column("ended_at", sa.Double),
        sa.Column("ours", sa.Boolean, nullable=False),
        sa.Column("look_at", sa.Double),
        sa.Column("misses", sa.Integer, nullable=False, server_default="0"),
        sa.Column("trouble", sa.Text),
        sa.Column("reported", sa.Text),
        # Not the old table's name: PostgreSQL keeps that one until the table is dropped.
        sa.PrimaryKeyConstraint("kind", "key", name="pk_jobs"),
    )
    op.create_index("ix_jobs_state", "jobs", ["state", "updated_at"])
    op.create_index("ix_jobs_ended_at", "jobs", ["ended_at"])
    runs = sa.text("ended_at IS NULL")
    op.create_index("ix_jobs_open", "jobs", ["look_at"], sqlite_where=runs, postgresql_where=runs)
