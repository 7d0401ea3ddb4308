"""Function calls, continuations, and what a job was started with."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("request", sa.JSON))
    _calls()
    _continuations()


def downgrade() -> None:
    for table in ("continuations", "function_calls"):
        op.drop_table(table)
    op.drop_column("jobs", "request")


def _calls() -> None:
    op.create_table(
        "function_calls",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("interaction_id", sa.Text, nullable=False),
        sa.Column("call_id", sa.Text, nullable=False),
        sa.Column("function", sa.Text, nullable=False),
        sa.Column("arguments", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("starts", sa.Integer, nullable=False),
        sa.Column("lease_until", sa.Double, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("is_error", sa.Boolean, nullable=False),
        sa.Column("result", sa.JSON),
        sa.Column("result_url", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("started_at", sa.Double),
        sa.Column("ended_at", sa.Double),
        sa.UniqueConstraint("interaction_id", "call_id", name="uq_function_calls_call"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_function_calls_state", "function_calls", ["state", "ended_at"])


def _continuations() -> None:
    op.create_table(
        "continuations",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("interaction_id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("lease_until", sa.Double, nullable=False),
        sa.Column("lost_at", sa.Double),
        sa.Column("successor_id", sa.Text),
        sa.Column("root_id", sa.Text, nullable=False),
        sa.Column("turn", sa.Integer, nullable=False),
        sa.Column("chain_started_at", sa.Double, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.UniqueConstraint("interaction_id", name="uq_continuations_interaction"),
        sa.UniqueConstraint("key", name="uq_continuations_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_continuations_successor", "continuations", ["successor_id"])
    op.create_index("ix_continuations_state", "continuations", ["state", "updated_at"])
