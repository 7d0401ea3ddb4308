"""``gemhooks simulate``: a local Gemini."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from gemhooks.errors import Misconfigured


def simulate(
    *,
    port: Annotated[int, typer.Option(help="to listen on; 0 takes a free one")] = 8787,
    host: Annotated[str, typer.Option(help="to listen on")] = "127.0.0.1",
    scenario: Annotated[
        Path | None,
        typer.Option(
            help="a YAML file: scripts, plans, variants and faults; see docs/simulator.md"
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="of its dice: the same seed, the same misbehaviour")
    ] = None,
    secret: Annotated[
        str,
        typer.Option(
            help="signs what is for no registered webhook and yet signed with v1",
            envvar="SIMULATOR_SECRET",
        ),
    ] = "",
    webhook: Annotated[
        str, typer.Option(help="register this uri for every event, with the same secret")
    ] = "",
) -> None:
    """Run a local Gemini: its API, and signed webhooks that call back."""
    simulator = _simulator()
    told = simulator.Scenario() if scenario is None else simulator.read(scenario)
    told = told if seed is None else told.with_seed(seed)
    try:
        simulator.serve(port, host, secret or None, announce=starting(webhook), scenario=told)
    except OSError:
        raise Misconfigured(f"the simulator can't listen on {host}:{port}; is it in use?") from None


def starting(webhook: str) -> Callable[[Any], None]:
    """What is done once the simulator answers: register *webhook*, say where everything is."""

    def announce(simulator: Any) -> None:
        if webhook:
            simulator.subscribe(webhook, simulator.secret)
        typer.echo(told_of(simulator))

    return announce


def told_of(simulator: Any) -> str:
    return (
        f"simulator  {simulator.url}  (GEMHOOKS_GEMINI_BASE_URL={simulator.url}"
        f" GEMHOOKS_JWKS_URL={simulator.jwks_url})"
    )


def _simulator() -> Any:
    try:
        from gemhooks import simulator  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("gemhooks"):
            raise
        raise Misconfigured("the simulator needs: pip install 'gemhooks[simulator]'.") from None
    return simulator
