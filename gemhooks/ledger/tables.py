"""What the ledger's database holds. A change here needs a migration beside it."""

import sqlalchemy as sa

RUNNING = "running"
DONE = "done"
NOBODY = ""  # the owner of a claim that was released

# What only one of the databases has a word for, see fresh.py: naming its option here would load it.
WHERE = "where"  # of an index, the rows that it holds
COUNTS_UP = "counts_up"  # a table's numbers are never given twice

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
        info={WHERE: "state = 'running'"},
    ),
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),  # the id without its prefix, see heads.bare_id
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
    sa.Column("request", sa.JSON(none_as_null=True)),  # what must be sent again to continue it
    sa.PrimaryKeyConstraint("kind", "key", name="pk_jobs"),
    sa.Index("ix_jobs_state", "state", "updated_at"),
    sa.Index("ix_jobs_ended_at", "ended_at"),
    # Only what runs, so that the reconciler finds it among all that ended.
    sa.Index(
        "ix_jobs_open",
        "look_at",
        info={WHERE: "ended_at IS NULL"},
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

# On SQLite only INTEGER counts up by itself.
Number = sa.BigInteger().with_variant(sa.Integer, "sqlite")

calls = sa.Table(
    "function_calls",
    metadata,
    sa.Column("id", Number, primary_key=True, autoincrement=True),
    sa.Column("interaction_id", sa.Text, nullable=False),
    sa.Column("call_id", sa.Text, nullable=False),
    sa.Column("function", sa.Text, nullable=False),
    sa.Column("arguments", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("starts", sa.Integer, nullable=False),
    sa.Column("lease_until", sa.Double, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("is_error", sa.Boolean, nullable=False),
    sa.Column("result", sa.JSON(none_as_null=True)),
    sa.Column("result_url", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("started_at", sa.Double),
    sa.Column("ended_at", sa.Double),
    sa.UniqueConstraint("interaction_id", "call_id", name="uq_function_calls_call"),
    sa.Index("ix_function_calls_state", "state", "ended_at"),
    info={COUNTS_UP: True},
)

continuations = sa.Table(
    "continuations",
    metadata,
    sa.Column("id", Number, primary_key=True, autoincrement=True),
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
    sa.Index("ix_continuations_successor", "successor_id"),
    sa.Index("ix_continuations_state", "state", "updated_at"),
    info={COUNTS_UP: True},
)
