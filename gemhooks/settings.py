"""Configuration: read once from the environment, then passed around."""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import SplitResult, urlsplit

import structlog
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from gemhooks.errors import Misconfigured

log = structlog.get_logger()

PREFIX = "GEMHOOKS_"
# Google's own names, without our prefix; the first that is set counts.
OTHERS = {
    "gemini_api_key": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "webhook_secret": ("GEMINI_WEBHOOK_SECRET",),
    "webhook_secret_path": (),  # where webhook_secret was read from, to look there again
}
LONGEST_FILE = 1 << 20  # bytes
LONGEST = 366 * 86400.0  # seconds of any wait
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: Any) -> Any:
    """``"2m"`` is 120.0; plain numbers are seconds."""
    found = (
        re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", text) if isinstance(text, str) else None
    )
    return float(found[1]) * UNITS[found[2] or "s"] if found else text


def schedule(text: str) -> tuple[float, ...]:
    """``"5s 1m"`` is (5.0, 60.0); ValueError for what is no list of waits."""
    waits = tuple(seconds(each) for each in _words(text))
    if not waits or not all(isinstance(each, float) for each in waits):
        raise ValueError(f"{text!r} is no list of waits such as '5s 1m 10m'")
    return waits


def _schedule(text: Any) -> Any:
    return schedule(text) if isinstance(text, str) else text


def _seconds(text: Any) -> Any:
    try:
        return float(seconds(text))
    except ValueError:
        raise ValueError(f"{text!r} is no time such as 30s, 2m or 1h") from None


def _words(text: Any) -> Any:
    return tuple(text.replace(",", " ").split()) if isinstance(text, str) else text


def _lower(text: Any) -> Any:
    return text.lower() if isinstance(text, str) else text


Wait = Annotated[float, Field(ge=0, le=LONGEST)]  # not a number and infinity are neither
Seconds = Annotated[Wait, BeforeValidator(_seconds)]


def _callable_back(uris: tuple[str, ...]) -> tuple[str, ...]:
    for uri in uris:
        parts = urlsplit(uri)
        if not parts.hostname or (parts.scheme != "https" and not _is_loopback(parts)):
            raise ValueError("each must be an https:// URL; http:// is for this machine only")
    return uris


def _http(url: str | None) -> str | None:
    if url and not (urlsplit(url).scheme in ("http", "https") and urlsplit(url).hostname):
        raise ValueError("it must begin with https:// or http://")
    return url


def _is_loopback(parts: SplitResult) -> bool:
    return parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")


BaseUrl = Annotated[str | None, AfterValidator(_http)]
Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words)]
Uris = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words), AfterValidator(_callable_back)]
Schedule = Annotated[tuple[Wait, ...], NoDecode, BeforeValidator(_schedule), Field(min_length=1)]
Word = Annotated[str, BeforeValidator(_lower)]  # one of a few; its pattern says which
Port = Annotated[int, Field(ge=0, le=65535)]


class Settings(BaseSettings):
    """Each field is the variable GEMHOOKS_<NAME>, or the file named by GEMHOOKS_<NAME>_FILE."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid")

    broker_url: SecretStr = SecretStr("sqlite:///gemhooks-data/queue.db")
    database_url: SecretStr = SecretStr("sqlite:///gemhooks-data/ledger.db")
    results_url: str = "gemhooks-data/results"
    spool: str = "gemhooks-data/spool"  # a local folder, for large results on their way to a bucket
    batch_rows: bool = False  # publish each row of a batch, too
    conversations: bool = False  # store and publish interactions as conversations, too

    gemini_api_key: SecretStr = SecretStr("")
    gemini_base_url: BaseUrl = None
    gemini_timeout: Annotated[Seconds, Field(gt=0)] = 30.0
    preload: bool = False  # Google's client: a second off the first event, 90 MiB on an idle worker
    # Where results may be downloaded from, beside the API itself; ".x.com" is any host below x.com.
    fetch_hosts: Words = (
        "generativelanguage.googleapis.com",
        "storage.googleapis.com",
        ".googleusercontent.com",
    )
    webhook_secret: SecretStr = SecretStr("")
    webhook_secret_path: Path | None = None

    host: str = "127.0.0.1"
    port: Port = 8080
    admin_host: str = "127.0.0.1"
    admin_port: Port = 9090
    receivers: Words = ()  # URLs of all receivers' admin ports, for the webhook commands

    schemes: Words = ("v1",)
    path_tokens: SecretStr = SecretStr("")
    jwks_url: str | None = None
    jwks_wait: Seconds = 2.0  # that a request waits for published keys, at most
    jwt_audience: Words = ()
    jwt_issuer: str | None = None
    tolerance: Annotated[int, Field(ge=1, le=3600), BeforeValidator(_seconds)] = 300  # seconds
    max_body: Annotated[int, Field(ge=1024, le=8 << 20)] = 1 << 20  # bytes
    publish_timeout: Annotated[Seconds, Field(gt=0)] = 5.0
    grace: Seconds = 8.0  # to finish what runs when told to stop; compose's default kills after 10
    drain_delay: Seconds = 0.0  # readiness is false for so long before the port closes

    webhook_uris: Uris = ()  # called back for what gemhooks.jobs starts, in place of the webhooks
    expect_interaction: Seconds = 600.0  # from a job's start; past that it is looked up
    expect_batch: Seconds = 3600.0
    expect_video: Seconds = 900.0
    stuck_after: Seconds = 48 * 3600.0  # past its expected end
    reconcile_every: Annotated[Seconds, Field(gt=0)] = 30.0  # and the shortest between two looks
    reconcile_rate: Annotated[float, Field(gt=0, le=1000)] = 2.0  # requests a second, at most
    reconcile_grace: Seconds = 60.0  # an event is on its way for so long
    list_batches_every: Seconds = 900.0

    concurrency: Annotated[int, Field(ge=1, le=1000)] = 16  # handlers at once, per process
    # Messages at hand per queue; 0 is twice the concurrency: one in work, one waiting, for each.
    prefetch: Annotated[int, Field(ge=0, le=65535)] = 0
    retry_schedule: Schedule = (5.0, 30.0, 120.0, 600.0, 3600.0, 21600.0)
    lease: Annotated[Seconds, Field(ge=1)] = 30.0  # the copies of a dead process's messages wait
    ledger: Annotated[Word, Field(pattern="^(on|off)$")] = "on"  # off: copies are handled again
    declare: Annotated[Word, Field(pattern="^(create|verify)$")] = "create"  # of the topology
    management_url: SecretStr = SecretStr("")  # of RabbitMQ, to see what AMQP does not tell

    functions: str = ""  # package.module:name of a Functions object
    functions_for: Annotated[Word, Field(pattern="^(known|all)$")] = "known"
    continue_wait: Seconds = 3600.0  # for the event of a continuation whose answer was lost
    max_turns: Annotated[int, Field(ge=1)] = 50  # interactions of one chain
    log_arguments: bool = False  # of function calls; they may hold what is private
    chain_timeout: Seconds = 7 * 86400.0  # from a chain's first turn to its last

    tracing: bool = False  # OpenTelemetry spans; the extra gemhooks[tracing]
    log_format: Annotated[Word, Field(pattern="^(auto|json|console)$")] = "auto"
    log_level: Annotated[Word, Field(pattern="^(debug|info|warning|error)$")] = "info"

    @property
    def expected(self) -> dict[str, float]:
        """Seconds from a job's start to its end, by kind."""
        return {
            "interaction": self.expect_interaction,
            "batch": self.expect_batch,
            "video": self.expect_video,
        }

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the base class's signature
        init_settings: PydanticBaseSettingsSource,
        *_others: PydanticBaseSettingsSource,
        **_named: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what :meth:`from_env` collected: the rules for files and names are ours."""
        return (init_settings,)

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Self:
        """Read the environment; Misconfigured, in one sentence, for what a person must mend."""
        check_names(env, known_names(cls))
        try:
            return cls.model_validate(dict(collect(cls, env)))
        except ValidationError as error:
            raise Misconfigured(_sentence(error)) from None  # its text would show the value


def variables(field: str) -> tuple[str, ...]:
    return OTHERS.get(field, (PREFIX + field.upper(),))


def known_names(model: type[BaseSettings]) -> set[str]:
    plain = {name for field in model.model_fields for name in variables(field)}
    return plain | {name + "_FILE" for name in plain}


def collect(model: type[BaseSettings], env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Field and value of what is set; a file counts before the variable itself.

    What is empty is not set: that is how others leave a variable out.
    """
    for field in model.model_fields:
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


def _sentence(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False, include_context=False)[0]
    name = variables(str(found["loc"][0]))[0] if found["loc"] else "The settings"
    why = found["msg"].removeprefix("Value error, ").lower()
    return f"{name} is not usable: {why}."
