"""A request as it comes in, and the WSGI environ that it becomes."""

import io
import sys
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_to_bytes

import httptools
from msgspec import Struct, field

from receiver.answers import Answer

Environ = dict[str, Any]

TRANSFER_ENCODING = "HTTP_TRANSFER_ENCODING"
OFFER = "HTTP_UPGRADE"
LONGEST_KNOWN = 512  # bytes of a header's name or a URL that may be remembered

SAME: Environ = {  # for all requests
    "SCRIPT_NAME": "",
    "SERVER_PROTOCOL": "HTTP/1.1",
    "wsgi.version": (1, 0),
    "wsgi.url_scheme": "http",
    "wsgi.errors": sys.stderr,
    "wsgi.multithread": False,
    "wsgi.multiprocess": False,
    "wsgi.run_once": False,
}


class Incoming(Struct, eq=False):
    """A request whose head is whole, and as much of its body as has come."""

    environ: Environ
    is_last: bool  # its connection is closed after its answer
    expects: bool  # its client waits for a word before it sends the body
    declared: int
    chunks: list[bytes] = field(default_factory=list)
    size: int = 0
    is_whole: bool = False
    is_started: bool = False
    refusal: Answer | None = None

    def close(self) -> Environ:
        """The environ, with the body; one that is too large is told by its length.

        A second application finds it as the first did.
        """
        environ = self.environ
        if body := environ.get("wsgi.input"):
            body.seek(0)
            return environ
        environ["wsgi.input"] = io.BytesIO(b"".join(self.chunks))
        environ["CONTENT_LENGTH"] = str(max(self.size, self.declared))
        self.chunks.clear()
        return environ


def environ_for(sockname: Any) -> Environ:
    """What the requests of one connection have in common."""
    host, port = sockname[:2] if isinstance(sockname, tuple) else ("localhost", 80)
    return {**SAME, "SERVER_NAME": str(host), "SERVER_PORT": str(port)}


def add_header(environ: Environ, name: bytes, value: bytes) -> None:
    key = _key_of(name) if len(name) > LONGEST_KNOWN else _known_key_of(name)
    text = value.strip(b" \t").decode("latin-1")  # around a value they are no part of it
    if key in environ:
        environ[key] = f"{environ[key]}, {text}"
    elif key:
        environ[key] = text


def _key_of(name: bytes) -> str:
    """Where the environ has a header; empty for what must not get there."""
    text = name.decode("latin-1").upper()
    if "_" in text:
        return ""  # x_y would pass for x-y
    key = text.replace("-", "_")
    return key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"


def head_without_offer(method: bytes, url: bytes, version: str, environ: Environ) -> bytes:
    """The head of a request again, without the protocol that it offers to go on with.

    Raises ValueError for a tunnel, which is no offer.
    """
    if method == b"CONNECT":
        raise ValueError("we are no proxy")
    kept = {key: text for key, text in environ.items() if key != OFFER and _is_header(key)}
    lines = (f"{_name_of(key)}: {text}" for key, text in kept.items())
    head = "\r\n".join([f" HTTP/{version}", *lines, "\r\n"])
    return b"%b %b%b" % (method, url, head.encode("latin-1"))


def _is_header(key: str) -> bool:
    return key.startswith(("HTTP_", "CONTENT_"))


def _name_of(key: str) -> str:
    return key.removeprefix("HTTP_").replace("_", "-")


def path_of(url: bytes) -> tuple[str, str]:
    """Path and query, as WSGI has them; raises for what is no URL."""
    return _path_of(url) if len(url) > LONGEST_KNOWN else _known_path_of(url)


def _path_of(url: bytes) -> tuple[str, str]:
    parsed = httptools.parse_url(url)
    query = (parsed.query or b"").decode("latin-1")
    path = unquote_to_bytes(parsed.path or b"").decode("latin-1")
    return "/" + path.lstrip("/"), query  # Flask finds //x where it finds /x


# What recurs is looked up; strangers choose it, so there are few of them, and none is long.
_known_key_of = lru_cache(maxsize=512)(_key_of)
_known_path_of = lru_cache(maxsize=64)(_path_of)
