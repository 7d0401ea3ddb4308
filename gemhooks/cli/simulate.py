"""``gemhooks simulate``: a local Gemini."""

from typing import Annotated

import typer

from gemhooks.errors import Misconfigured


def simulate(
    port: Annotated[int, typer.Option(help="to listen on; 0 takes a free one")] = 8787,
    host: Annotated[str, typer.Option(help="to listen on")] = "127.0.0.1",
) -> None:
    """Run a local Gemini: its API, and signed webhooks that call back."""
    try:
        from gemhooks.simulator.server import serve  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("gemhooks"):
            raise
        raise Misconfigured("the simulator needs: pip install 'gemhooks[simulator]'.") from None
    serve(port, host=host)
