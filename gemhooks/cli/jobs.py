"""``gemhooks jobs``: what was started or seen, and how it stands."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gemhooks.cli.tables import MOST_ROWS, Format, FormatOption, show, show_one
from gemhooks.cli.waking import wake
from gemhooks.errors import Misconfigured
from gemhooks.heads import FAMILIES, bare_id
from gemhooks.settings import Settings
from gemhooks.spelling import seconds

if TYPE_CHECKING:  # SQLAlchemy is slow to import, and --help is not
    from gemhooks.ledger import Job, Ledgers

app = typer.Typer(help="Interactions, batches and videos that are known.", no_args_is_help=True)

COLUMNS = ("kind", "id", "state", "trouble", "event_type", "updated_at")
FORMS = (
    (re.compile(r"(interactions/)?v1_"), "interaction"),
    (re.compile(r"batches/"), "batch"),
    (re.compile(r"(models/[^/]+/)?operations/"), "video"),
)
TIMES = ("created_at", "updated_at", "expected_at", "ended_at")


@app.callback()
def options() -> None:
    """Interactions, batches and videos that are known."""


@app.command("list")
def list_(
    kind: Annotated[str, typer.Option(help="interaction, batch or video")] = "",
    state: Annotated[str, typer.Option(help="for instance failed")] = "",
    *,
    stuck: Annotated[
        bool, typer.Option("--stuck", help="only those that are stuck or vanished")
    ] = False,
    limit: Annotated[int, typer.Option(help="the newest so many", min=1, max=MOST_ROWS)] = 100,
    form: FormatOption = Format.TABLE,
) -> None:
    """List jobs, the newest first."""
    with ledgers() as opened:
        jobs = opened.jobs.list(state or None, kind or None, troubled=stuck, limit=limit)
    show([row(job) for job in jobs], COLUMNS, form)


@app.command("add")
def add(
    job_ids: Annotated[list[str], typer.Argument(metavar="ID...")],
    kind: Annotated[str, typer.Option(help="where the id does not tell")] = "",
    expected_in: Annotated[
        str, typer.Option(help="until it should have ended, for instance 2h")
    ] = "",
    form: FormatOption = Format.TABLE,
) -> None:
    """Register jobs that were started elsewhere: the reconciler looks after them from now on.

    The functions of a registered interaction are ours to run.
    """
    from gemhooks.jobs import Register  # noqa: PLC0415 - see above

    wanted = [(kind_of(each, kind), each) for each in job_ids]
    length = duration(expected_in)
    with ledgers() as opened:
        register = Register(opened, Settings.from_env().expected)
        added = [register.add(*each, expected_in=length) for each in wanted]
    for job in added:
        if (job.kind, job.state) == ("interaction", "requires_action"):
            wake(job.id, by="jobs-add")  # its event came when it was not ours yet
    show([row(job) for job in added], COLUMNS, form)


def kind_of(job_id: str, told: str) -> str:
    """What kind of job it is, by *told* or by its id; Misconfigured where neither says."""
    found = [told] if told else [kind for form, kind in FORMS if form.match(job_id)]
    if found and found[0] in FAMILIES:
        return found[0]
    what = f"{told!r} is no kind" if told else f"{job_id!r} does not tell its kind"
    raise Misconfigured(f"{what}: add --kind interaction, batch or video.")


def duration(text: str) -> float | None:
    """``2h`` in seconds, None for nothing; Misconfigured for what is no duration."""
    if not text:
        return None
    try:
        return seconds(text)
    except ValueError:
        raise Misconfigured(
            f"--expected-in {text!r} is no duration; say 90s, 10m, 2h or 1d."
        ) from None


@app.command("show")
def show_(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="with or without its prefix")],
    kind: Annotated[str, typer.Option(help="interaction, batch or video")] = "",
    form: FormatOption = Format.TABLE,
) -> None:
    """Show all that is known of one job, and where its results lie."""
    with ledgers() as opened:
        job = find(opened, job_id, kind)
        results = opened.results.get(job.kind, bare_id(job.id))
    known = row(job) | {"results": [each.url for each in results]}
    show_one(known, tuple(known), form)


@contextmanager
def ledgers() -> Iterator["Ledgers"]:
    from gemhooks.ledger import open_ledger  # noqa: PLC0415 - see above

    opened = open_ledger(Settings.from_env().database_url.get_secret_value())
    try:
        yield opened
    finally:
        opened.close()


def find(opened: "Ledgers", job_id: str, kind: str) -> "Job":
    """The one job of that id; Misconfigured where there is none."""
    from gemhooks.ledger import KINDS  # noqa: PLC0415 - see above

    for each in [kind] if kind else KINDS:
        if (job := opened.jobs.get(each, job_id)) is not None:
            return job
    what = kind or "job"
    raise Misconfigured(f"no {what} {job_id!r} is known; `gemhooks jobs add` registers one.")


def row(job: "Job") -> dict[str, Any]:
    fields = asdict(job)
    return fields | {name: instant(fields[name]) for name in TIMES}


def instant(seconds: float | None) -> str | None:
    """Unix seconds as RFC 3339."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
