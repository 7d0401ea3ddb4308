"""``gemhooks simulate``: a local Gemini."""

from typing import Annotated, Any

import typer

from gemhooks.errors import Misconfigured


def simulate(
    port: Annotated[int, typer.Option(help="to listen on; 0 takes a free one")] = 8787,
    host: Annotated[str, typer.Option(help="to listen on")] = "127.0.0.1",
    secret: Annotated[
        str,
        typer.Option(
            help="signs what goes to an interaction's own uris", envvar="SIMULATOR_SECRET"
        ),
    ] = "",
    webhook: Annotated[
        str, typer.Option(help="register this uri for every event, with the same secret")
    ] = "",
) -> None:
    """Run a local Gemini: its API, and signed webhooks that call back."""
    serve = _serve()
    try:
        serve(port, host, secret or None, announce=lambda running: announce(running, webhook))
    except (OSError, SystemExit):  # the server below ends the process where the port is taken
        raise Misconfigured(f"the simulator can't listen on {host}:{port}; is it in use?") from None


def announce(simulator: Any, webhook: str) -> None:
    if webhook:
        simulator.subscribe(webhook, simulator.secret)
    typer.echo(f"simulator  {simulator.url}  (GEMHOOKS_GEMINI_BASE_URL={simulator.url})")


def _serve() -> Any:
    try:
        from gemhooks.simulator.server import serve  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("gemhooks"):
            raise
        raise Misconfigured("the simulator needs: pip install 'gemhooks[simulator]'.") from None
    return serve
