"""Asking over plain HTTP, and what may be raised where no answer comes, beside HTTPError."""

import functools
import http.client
from urllib import request

# Nobody there; no HTTP, or an answer cut short; what is no URL after all (UnicodeError is one).
NO_ANSWER = (OSError, http.client.HTTPException, ValueError)

# All but files, FTP and redirects: followed, one makes a GET of a POST, and takes a password or a
# signature along to whatever host it names.
HANDLERS = (
    request.ProxyHandler,
    request.UnknownHandler,
    request.HTTPHandler,
    request.HTTPSHandler,
    request.HTTPDefaultErrorHandler,
    request.HTTPErrorProcessor,
)


def asked(question: request.Request | str, *, timeout: float) -> http.client.HTTPResponse:
    """The answer, of whom was asked; HTTPError for a refusal, and a redirect is one."""
    found: http.client.HTTPResponse = _opener().open(question, timeout=timeout)
    return found


@functools.cache
def _opener() -> request.OpenerDirector:
    opener = request.OpenerDirector()
    for handler in HANDLERS:
        opener.add_handler(handler())
    return opener
