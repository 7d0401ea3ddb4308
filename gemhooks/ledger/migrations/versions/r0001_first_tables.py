"""The first tables: handled, jobs, results."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    _handled()
    _jobs()
    _results()


def downgrade() -> None:
    for table in ("results", "jobs", "handled"):
        op.drop_table(table)


def _handled() -> None:
    op.create_table(
        "handled",
        sa.Column("queue", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("lease_until", sa.Double, nullable=False),
        sa.Column("starts", sa.Integer, nullable=False),
        sa.Column("first_at", sa.Double, nullable=False),
        sa.Column("done_at", sa.Double),
    )
    op.create_index("ix_handled_done_at", "handled", ["done_at"])
    running = sa.text("state = 'running'")
    op.create_index(
        "ix_handled_running",
        "handled",
        ["lease_until"],
        sqlite_where=running,
        postgresql_where=running,
    )


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("event_type", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("error_code", sa.Text),
        sa.Column("error_message", sa.Text),
        sa.Column("user_metadata", sa.JSON(none_as_null=True)),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.Column("expected_at", sa.Double),
        sa.Column("ours", sa.Boolean, nullable=False),
    )
    op.create_index("ix_jobs_state", "jobs", ["state", "updated_at"])


def _results() -> None:
    op.create_table(
        "results",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("url", sa.Text, primary_key=True),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("stored_at", sa.Double, nullable=False),
    )
    op.create_index("ix_results_stored_at", "results", ["stored_at"])
