"""What one may ask of Gemini: which events, which address. Checked before anything is sent."""

import difflib
import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from gemhooks.errors import Misconfigured

# The API's own error names exactly these; the guide's catalogue has two more.
SUBSCRIBABLE = (
    "batch.succeeded",
    "batch.expired",
    "batch.failed",
    "interaction.requires_action",
    "interaction.completed",
    "interaction.failed",
    "video.generated",
)
CATALOGUE_ONLY = ("batch.cancelled", "interaction.cancelled")
ALL = "all"
LONGEST_URI = 2048
HTTPS_ONLY = "Gemini calls https only; http is for a loopback host, with the simulator"


def check_events(names: Iterable[str]) -> tuple[str, ...]:
    """The event types of *names*, each once, in Google's order; ``all`` is the seven.

    Raises Misconfigured, saying what may have been meant.
    """
    wanted = {part.strip() for name in names for part in name.split(",") if part.strip()}
    if not wanted:
        raise Misconfigured(f"say which events: some of {', '.join(SUBSCRIBABLE)}, or all.")
    if ALL in wanted:
        return SUBSCRIBABLE
    for name in sorted(wanted - set(SUBSCRIBABLE)):
        raise Misconfigured(_not_subscribable(name))
    return tuple(name for name in SUBSCRIBABLE if name in wanted)


def _not_subscribable(name: str) -> str:
    if name in CATALOGUE_ONLY:
        return (
            f"Gemini's guide lists {name}, but its API lets nobody subscribe to it:"
            " such jobs are found by asking, not by a webhook."
        )
    close = difflib.get_close_matches(name.lower(), SUBSCRIBABLE, n=1, cutoff=0.6)
    meant = f" Did you mean {close[0]}?" if close else ""
    return f"{name!r} is no event one can subscribe to.{meant} They are {', '.join(SUBSCRIBABLE)}."


def check_uri(uri: str) -> str:
    """*uri*, if Gemini can call it; Misconfigured, in one sentence, if not."""
    if not uri.isascii() or not uri.isprintable() or " " in uri or len(uri) > LONGEST_URI:
        raise Misconfigured(f"the uri must be at most {LONGEST_URI} plain characters.")
    try:
        parts = urlsplit(uri)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise Misconfigured(f"{uri!r} is not a URL.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise Misconfigured(f"{uri!r} is not a URL that begins with https:// and a host.")
    if parts.username or parts.password or parts.fragment:
        raise Misconfigured("the uri must have no user, password or #fragment.")
    if parts.scheme == "http" and not is_loopback(host):
        raise Misconfigured(f"{HTTPS_ONLY}: not {uri}.")
    return uri


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
