"""``gemhooks webhook ensure``: webhooks as they are declared, once or for ever."""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer
from prometheus_client import CollectorRegistry

from gemhooks import logs
from gemhooks.admin import AdminServer
from gemhooks.cli.tables import Format, FormatOption, show
from gemhooks.cli.webhook.shared import (
    ReceiverOption,
    SaveTo,
    held_secrets,
    read_settings,
    webhooks,
)
from gemhooks.errors import GemhooksError, Misconfigured
from gemhooks.gemini.webhooks import ENABLED, Webhooks
from gemhooks.metrics import WebhookMetrics
from gemhooks.settings import Settings
from gemhooks.webhooks import desired, wishes
from gemhooks.webhooks.desired import Desired
from gemhooks.webhooks.drift import Kind
from gemhooks.webhooks.ensuring import Ensured, Ensurer
from gemhooks.webhooks.places import Held, SecretPlace
from gemhooks.webhooks.receivers import Receivers
from gemhooks.webhooks.reviving import Revivals

COLUMNS = ("webhook", "id", "state", "done", "left")
MEMORY = "gemhooks-data/ensure.json"

log = structlog.get_logger()


def ensure(
    *,
    file: Annotated[
        Path | None, typer.Option(help="TOML or YAML that declares webhooks", show_default=False)
    ] = None,
    uri: Annotated[str, typer.Option(help="instead of a file: where Gemini delivers to")] = "",
    event: Annotated[
        list[str] | None, typer.Option("--event", "-e", help="a type, several, or all")
    ] = None,
    name: Annotated[str, typer.Option(help="for people")] = "",
    webhook: Annotated[str, typer.Option("--id", help="where the uri does not tell")] = "",
    disabled: Annotated[bool, typer.Option("--disabled", help="it should be")] = False,
    save_to: SaveTo = "",
    check: Annotated[
        bool, typer.Option("--check", help="change nothing; exit code 1 where something differs")
    ] = False,
    every: Annotated[
        float, typer.Option(help="seconds, 1 or more; again and again until stopped")
    ] = 0.0,
    admin_port: Annotated[
        int, typer.Option(help="with --every: serves /metrics and health there; 0 does not")
    ] = 0,
    memory: Annotated[Path, typer.Option(help="remembers what was enabled again")] = Path(MEMORY),
    receiver: ReceiverOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Create, update and enable webhooks as declared; exit code 1 where something is left."""
    options = {"uri": uri, "name": name, "id": webhook, "save_to": save_to}
    wanted = declared(file, {**options, "events": event or [wishes.ALL], "enabled": not disabled})
    settings = read_settings()
    with webhooks() as api:
        receivers = Receivers.of(receiver or (), settings)
        ensurer = Ensurer(api, receivers, Revivals(memory, time.time), held_at(settings))
        if every:
            logs.configure(settings.log_format, settings.log_level)
            with watched(settings.admin_host, admin_port) as metrics:
                keep(ensurer, wanted, every, check=check, metrics=metrics)
            return
        results = run(ensurer, api, wanted, check=check)
    show([row(each) for each in results], COLUMNS, form)
    raise typer.Exit(0 if all(each.is_as_declared for each in results) else 1)


def declared(file: Path | None, options: dict[str, Any]) -> tuple[Desired, ...]:
    """From the file or from the options, not from both."""
    if file is None and not options["uri"]:
        raise Misconfigured("say what should be: --file webhooks.toml, or --uri https://...")
    if file is None:
        return (Desired.model_validate(options),)
    if options["uri"] or options["name"] or options["id"]:
        raise Misconfigured("--file declares it all: --uri, --name and --id don't go with it.")
    default = options["save_to"]
    return tuple(
        each if each.save_to else each.model_copy(update={"save_to": default})
        for each in desired.read(file)
    )


def held_at(settings: Settings) -> Any:
    def held(save_to: str) -> Sequence[Held] | None:
        found = SecretPlace(Path(save_to)).held() if save_to else held_secrets(settings)
        return found if found or save_to else None

    return held


def run(
    ensurer: Ensurer, api: Webhooks, wanted: Sequence[Desired], *, check: bool
) -> list[Ensured]:
    listed = api.list()
    act = ensurer.check if check else ensurer.ensure
    return [act(each, listed) for each in wanted]


@contextmanager
def watched(host: str, port: int) -> Iterator[WebhookMetrics]:
    """The gauges, served at *port* where there is one."""
    registry = CollectorRegistry()
    if not port:
        yield WebhookMetrics(registry)
        return
    admin = AdminServer(host, port, registry, lambda: True, lambda: True)
    admin.start()
    try:
        yield WebhookMetrics(registry)
    finally:
        admin.stop()


def keep(
    ensurer: Ensurer,
    wanted: Sequence[Desired],
    every: float,
    *,
    check: bool,
    metrics: WebhookMetrics,
) -> None:
    """Until SIGTERM or Ctrl-C; what fails is logged and tried again."""
    from gemhooks.service import stop_event  # noqa: PLC0415 - SQLAlchemy is slow to import

    stop = stop_event()
    while True:
        try:
            for each in run(ensurer, ensurer.api, wanted, check=check):
                write(each)
                count(each, metrics)
        except GemhooksError as error:
            log.warning("webhooks_not_ensured", reason=logs.redact(str(error)))
        if stop.wait(max(1.0, every) * random.uniform(0.9, 1.1)):  # noqa: S311 - jitter
            return


def count(ensured: Ensured, metrics: WebhookMetrics) -> None:
    found = {each.kind for each in ensured.found} if ensured.left else set()
    drift = {kind.value: kind in found for kind in Kind}
    metrics.seen(ensured.label, enabled=ensured.state == ENABLED, drift=drift)


def write(ensured: Ensured) -> None:
    level = log.info if ensured.is_as_declared else log.warning
    level(
        "webhook_ensured",
        webhook=ensured.webhook,
        label=ensured.label,
        state=ensured.state,
        drift=[each.kind.value for each in ensured.found],
        done=list(ensured.done),
        left=list(ensured.left),
    )


def row(ensured: Ensured) -> dict[str, Any]:
    return {
        "webhook": ensured.label,
        "id": ensured.webhook,
        "state": ensured.state,
        "drift": [{"kind": each.kind.value, "text": each.text} for each in ensured.found],
        "done": "; ".join(ensured.done),
        "left": "; ".join(ensured.left),
    }
