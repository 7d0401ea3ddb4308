"""Every setting: its default from the code, and a sentence that a test asks for."""

from typing import Any

from msgspec.structs import FieldInfo, fields

from gemhooks.settings import Settings, variables
from gemhooks.spelling import SecretText, reader_of, seconds

# By whom they are read, in the order of the page. Every field stands here once.
ABOUT: dict[str, dict[str, str]] = {
    "Where things are": {
        "broker_url": "the queue: `sqlite:///file` on one machine, `amqp://` or `amqps://` for RabbitMQ",
        "database_url": "the ledger: `sqlite:///file`, or `postgresql://...`",
        "results_url": "where results are stored: a folder, `s3://bucket`, `gs://bucket`, any fsspec URL",
        "spool": "a local folder for large results on their way to a bucket",
        "management_url": "RabbitMQ's HTTP API, to see what AMQP does not tell",
        "declare": "`create` exchanges and queues, or only `verify` that operators have",
        "ledger": "`off`: copies are handled again, and no database is needed",
    },
    "Gemini": {
        "gemini_api_key": "to start jobs and fetch results",
        "gemini_base_url": "for the simulator or a proxy",
        "gemini_timeout": "for one request",
        "preload": "`1`: the built-in workers load Google's client while they start; their first event is handled a second sooner, and an idle worker takes 90 MiB more",
        "fetch_hosts": "from where results may be downloaded, beside the API; `.x.com` is any host below",
        "webhook_secret": "shared secrets, separated by spaces or commas; as a file or a folder they are"
        " read again when they change",
        "webhook_uris": "called back for what `gemhooks.jobs` starts, instead of the project's webhooks",
    },
    "The receiver": {
        "host": "where webhooks come in",
        "port": "where webhooks come in",
        "schemes": "which signatures count: `v1`, `v1a`, `jwt`",
        "path_tokens": "secret last parts of `/webhooks/gemini/<token>`",
        "jwks_url": "where the keys for `v1a` and `jwt` are published; empty: Google's",
        "jwks_wait": "that a request waits for published keys, at most",
        "jwt_audience": "whom a token must be for",
        "jwt_issuer": "by whom a token must be, if that is to be checked",
        "tolerance": "seconds that a timestamp may be off",
        "max_body": "bytes",
        "publish_timeout": "that the queue has to confirm; then 503",
        "drain_delay": "after SIGTERM, until the port closes; `/readyz` is false meanwhile",
    },
    "Every process": {
        "admin_host": "of `/metrics`, `/livez`, `/readyz`",
        "admin_port": "of `/metrics`, `/livez`, `/readyz`; 0 is none",
        "grace": "to finish what runs when told to stop",
        "tracing": "`1`: OpenTelemetry spans of the receiver, workers and consumers, sent where `OTEL_*` says; needs the extra `tracing`",
        "log_format": "`json`, `console`, or `auto`: console on a terminal",
        "log_level": "`debug`, `info`, `warning` or `error`",
        "receivers": "URLs of all receivers' admin ports, for `gemhooks webhook`",
    },
    "Workers and consumers": {
        "concurrency": "handlers at once, per process",
        "prefetch": "messages at hand per queue; 0 is twice the concurrency",
        "retry_schedule": "waits between the attempts of a message",
        "lease": "so long the copies of a dead process's messages wait",
        "batch_rows": "publish each row of a batch as `batch.row`",
        "conversations": "store and publish interactions as conversations, too",
    },
    "Functions": {
        "functions": "`package.module:name` of a `Functions` object",
        "functions_for": "`known` interactions, or `all` of the project",
        "continue_wait": "for the event of a continuation whose answer was lost",
        "max_turns": "interactions of one chain",
        "chain_timeout": "from a chain's first turn to its last",
        "log_arguments": "log the arguments of calls; they may hold what is private",
    },
    "The reconciler": {
        "expect_interaction": "from a job's start; past that it is looked up",
        "expect_batch": "from a job's start; past that it is looked up",
        "expect_video": "from a job's start; past that it is looked up",
        "stuck_after": "past its expected end a job is stuck",
        "reconcile_every": "between two rounds",
        "reconcile_rate": "requests a second, at most",
        "reconcile_grace": "an event may be on its way for so long",
        "list_batches_every": "between two looks at the project's list",
    },
}
UNSEEN = {"webhook_secret_path"}  # it is where webhook_secret was read from
FIELDS: dict[str, FieldInfo] = {field.name: field for field in fields(Settings)}
UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


def page() -> str:
    sections = (f"## {title}\n\n{_table(fields)}" for title, fields in ABOUT.items())
    return (
        "# Settings\n\nRead once from the environment. Each is also read from the file that `..._FILE`"
        " names, which counts\nfirst. Times are seconds, or `90s`, `5m`, `2h`, `7d`; lists are"
        " separated by spaces or commas; switches\nare `1` and `0`; what is empty is not set. A misspelt"
        " name is an error that says what was meant.\n\n" + "\n".join(sections)
    )


def _table(fields: dict[str, str]) -> str:
    rows = (
        f"| {', '.join(f'`{name}`' for name in variables(field))} | {_default(field)} | {about} |"
        for field, about in fields.items()
    )
    return "| variable | default | what it is |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"


def _default(field: str) -> str:
    kind, value = FIELDS[field].type, FIELDS[field].default
    if isinstance(value, SecretText):
        text = value.get_secret_value()
    elif isinstance(value, float) and reader_of(kind) is seconds:
        text = _seconds(value)
    else:
        text = _text(value)
    return f"`{text}`" if text else ""


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(_seconds(each) if isinstance(each, float) else each for each in value)
    if isinstance(value, bool | float):
        return f"{value:g}"
    return "" if value is None else str(value)


def _seconds(value: float) -> str:
    for size, unit in UNITS:
        if value and value % size == 0:
            return f"{value / size:g}{unit}"
    return f"{value:g}s"
