"""What the ledger's database holds. A change here needs a migration beside it."""

import sqlalchemy as sa

RUNNING = "running"
DONE = "done"
NOBODY = ""  # the owner of a claim that was released

metadata = sa.MetaData()

# Times are Unix seconds of the database's clock.
handled = sa.Table(
    "handled",
    metadata,
    sa.Column("queue", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("lease_until", sa.Double, nullable=False),
    sa.Column("starts", sa.Integer, nullable=False),
    sa.Column("first_at", sa.Double, nullable=False),
    sa.Column("done_at", sa.Double),
    sa.Index("ix_handled_done_at", "done_at"),
    # Only what never ended, so that the sweep finds it and done rows cost nothing.
    sa.Index(
        "ix_handled_running",
        "lease_until",
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    ),
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),  # the id without its prefix, see events.bare_id
    sa.Column("id", sa.Text, nullable=False),  # as it was told
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
    # What the reconciler knows of it.
    sa.Column("look_at", sa.Double),  # when it may be looked up again
    sa.Column("misses", sa.Integer, nullable=False, server_default="0"),  # 404s in a row
    sa.Column("trouble", sa.Text),
    sa.Column("reported", sa.Text),  # the event type that was published in Gemini's place
    sa.Index("ix_jobs_state", "state", "updated_at"),
    sa.Index("ix_jobs_ended_at", "ended_at"),
    # Only what runs, so that the reconciler finds it among all that ended.
    sa.Index(
        "ix_jobs_open",
        "kind",
        "look_at",
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    ),
)

results = sa.Table(
    "results",
    metadata,
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("url", sa.Text, primary_key=True),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("stored_at", sa.Double, nullable=False),
    sa.Index("ix_results_stored_at", "stored_at"),
)
