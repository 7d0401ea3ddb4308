"""Configuration: read once from the environment, then passed around."""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import structlog
from msgspec import Struct
from msgspec.structs import fields

from gemhooks.errors import Misconfigured
from gemhooks.spelling import (
    LONGEST,
    BaseUrl,
    Folder,
    Hidden,
    Port,
    Schedule,
    SecretText,
    SomeTime,
    Switch,
    Uris,
    Wait,
    Words,
    by,
    number,
    one_of,
    read,
    seconds,
)

log = structlog.get_logger()

PREFIX = "GEMHOOKS_"
# Google's own names, without our prefix; the first that is set counts.
OTHERS = {
    "gemini_api_key": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "webhook_secret": ("GEMINI_WEBHOOK_SECRET",),
    "webhook_secret_path": (),  # where webhook_secret was read from, to look there again
}
LONGEST_FILE = 1 << 20  # bytes


class Settings(Struct, frozen=True, kw_only=True):
    """Each field is the variable GEMHOOKS_<NAME>, or the file named by GEMHOOKS_<NAME>_FILE."""

    broker_url: Hidden = SecretText("sqlite:///gemhooks-data/queue.db")
    database_url: Hidden = SecretText("sqlite:///gemhooks-data/ledger.db")
    results_url: str = "gemhooks-data/results"
    spool: str = "gemhooks-data/spool"  # a local folder, for large results on their way to a bucket
    batch_rows: Switch = False  # publish each row of a batch, too
    conversations: Switch = False  # store and publish interactions as conversations, too

    gemini_api_key: Hidden = SecretText("")
    gemini_base_url: BaseUrl = None
    gemini_timeout: SomeTime = 30.0
    preload: Switch = False  # Google's client, before the first event: 90 MiB when idle
    # Where results may be downloaded from, beside the API itself; ".x.com" is any host below x.com.
    fetch_hosts: Words = (
        "generativelanguage.googleapis.com",
        "storage.googleapis.com",
        ".googleusercontent.com",
    )
    webhook_secret: Hidden = SecretText("")
    webhook_secret_path: Folder = None

    host: str = "127.0.0.1"
    port: Port = 8080
    admin_host: str = "127.0.0.1"
    admin_port: Port = 9090
    receivers: Words = ()  # URLs of all receivers' admin ports, for the webhook commands

    schemes: Words = ("v1",)
    path_tokens: Hidden = SecretText("")
    jwks_url: str | None = None
    jwks_wait: Wait = 2.0  # that a request waits for published keys, at most
    jwt_audience: Words = ()
    jwt_issuer: str | None = None
    tolerance: Annotated[int, by(seconds, ge=1, le=3600)] = 300  # seconds
    max_body: Annotated[int, by(number, ge=1024, le=8 << 20)] = 1 << 20  # bytes
    publish_timeout: SomeTime = 5.0
    grace: Wait = 8.0  # to finish what runs when told to stop; compose's default kills after 10
    drain_delay: Wait = 0.0  # readiness is false for so long before the port closes

    webhook_uris: Uris = ()  # called back for what gemhooks.jobs starts, in place of the webhooks
    expect_interaction: Wait = 600.0  # from a job's start; past that it is looked up
    expect_batch: Wait = 3600.0
    expect_video: Wait = 900.0
    stuck_after: Wait = 48 * 3600.0  # past its expected end
    reconcile_every: SomeTime = 30.0  # and the shortest between two looks
    reconcile_rate: Annotated[float, by(number, gt=0, le=1000)] = 2.0  # requests a second, at most
    reconcile_grace: Wait = 60.0  # an event is on its way for so long
    list_batches_every: Wait = 900.0

    concurrency: Annotated[int, by(number, ge=1, le=1000)] = 16  # handlers at once, per process
    # Messages at hand per queue; 0 is twice the concurrency: one in work, one waiting, for each.
    prefetch: Annotated[int, by(number, ge=0, le=65535)] = 0
    retry_schedule: Schedule = (5.0, 30.0, 120.0, 600.0, 3600.0, 21600.0)
    lease: Annotated[float, by(seconds, ge=1, le=LONGEST)] = (
        30.0  # the copies of a dead process's messages wait
    )
    ledger: Annotated[str, by(one_of("on", "off"))] = "on"  # off: copies are handled again
    declare: Annotated[str, by(one_of("create", "verify"))] = "create"  # of the topology
    management_url: Hidden = SecretText("")  # of RabbitMQ, to see what AMQP does not tell

    functions: str = ""  # package.module:name of a Functions object
    functions_for: Annotated[str, by(one_of("known", "all"))] = "known"
    continue_wait: Wait = 3600.0  # for the event of a continuation whose answer was lost
    max_turns: Annotated[int, by(number, ge=1)] = 50  # interactions of one chain
    log_arguments: Switch = False  # of function calls; they may hold what is private
    chain_timeout: Wait = 7 * 86400.0  # from a chain's first turn to its last

    tracing: Switch = False  # OpenTelemetry spans; the extra gemhooks[tracing]
    log_format: Annotated[str, by(one_of("auto", "json", "console"))] = "auto"
    log_level: Annotated[str, by(one_of("debug", "info", "warning", "error"))] = "info"

    @property
    def expected(self) -> dict[str, float]:
        """Seconds from a job's start to its end, by kind."""
        return {
            "interaction": self.expect_interaction,
            "batch": self.expect_batch,
            "video": self.expect_video,
        }

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Self:
        """Read the environment; Misconfigured, in one sentence, for what a person must mend."""
        check_names(env, known_names(cls))
        kinds = {field.name: field.type for field in fields(cls)}
        return cls(**{name: _value(name, kinds[name], text) for name, text in collect(cls, env)})


def _value(name: str, kind: Any, text: str) -> Any:
    try:
        return read(kind, text)
    except ValueError as error:
        raise Misconfigured(f"{variables(name)[0]} is not usable: {error}.") from None


def variables(field: str) -> tuple[str, ...]:
    return OTHERS.get(field, (PREFIX + field.upper(),))


def known_names(model: type[Struct]) -> set[str]:
    plain = {name for field in model.__struct_fields__ for name in variables(field)}
    return plain | {name + "_FILE" for name in plain}


def collect(model: type[Struct], env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Field and value of what is set; a file counts before the variable itself.

    What is empty is not set: that is how others leave a variable out.
    """
    for field in model.__struct_fields__:
        for name in variables(field):
            if is_service_link(name, env.get(name, "")):
                continue
            if path := env.get(name + "_FILE", "").strip():
                yield field, read_secret_file(name + "_FILE", path)
                if field == "webhook_secret":
                    yield "webhook_secret_path", path
                break
            if value := env.get(name, "").strip():
                yield field, value
                break


def read_secret_file(name: str, path: str) -> str:
    """The file's text without surrounding white space; of a folder, every file's, by name."""
    place = Path(path)
    try:
        files = sorted(filter(_is_plain, place.iterdir())) if place.is_dir() else [place]
        texts = [each.read_bytes()[:LONGEST_FILE].decode().strip() for each in files]
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{name}={path} can't be read: {type(error).__name__}.") from None
    return " ".join(texts)


def _is_plain(path: Path) -> bool:
    # A mounted Kubernetes Secret keeps its versions in ..data folders beside the links to them.
    return path.is_file() and not path.name.startswith(".")


def check_names(env: Mapping[str, str], known: set[str]) -> None:
    """A name close to one of ours is a slip and an error; others are only mentioned."""
    for name, value in env.items():
        if not name.startswith(PREFIX) or name in known or name.startswith("GEMHOOKS_TEST_"):
            continue
        if is_service_link(name, value):
            continue
        if close := difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8):
            raise Misconfigured(f"{name} is not a setting; did you mean {close[0]}?")
        log.warning("setting_unknown", name=name)


# Kubernetes sets GEMHOOKS_PORT=tcp://10.0.0.1:80 and its like for a Service called gemhooks.
SERVICE_LINK = re.compile(r"GEMHOOKS_(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP)\w*)?)")


def is_service_link(name: str, value: str) -> bool:
    if name in ("GEMHOOKS_PORT", "GEMHOOKS_ADMIN_PORT"):
        return value.startswith(("tcp://", "udp://"))
    return SERVICE_LINK.fullmatch(name) is not None
