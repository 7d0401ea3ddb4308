"""``gemhooks health``: the probe of a container, without a shell or curl in it."""

import http.client
from typing import Annotated

import typer

from gemhooks.errors import Unavailable
from gemhooks.settings import Settings

OK = 200


def health(
    *,
    live: Annotated[
        bool, typer.Option("--live", help="only whether a restart would help (/livez)")
    ] = False,
    timeout: Annotated[float, typer.Option(help="seconds", min=0.1)] = 3.0,
) -> None:
    """Ask this container's process on GEMHOOKS_ADMIN_PORT; exit code 1 where it is not well."""
    settings = Settings.from_env()
    path = "/livez" if live else "/readyz"
    told = answer(reachable(settings.admin_host), settings.admin_port, path, timeout)
    if told != OK:
        raise Unavailable(f"{path} on port {settings.admin_port} says {told}.")


def reachable(host: str) -> str:
    """Where a server that listens on *host* answers from within."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)


def answer(host: str, port: int, path: str, timeout: float) -> int:
    """The status there; Unavailable where nobody answers in time."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"nobody answers on port {port} ({type(error).__name__}).") from None
    finally:
        connection.close()
