"""Flask without what no webhook has a use for: sessions, signals, hosts, automatic OPTIONS.

They are half of what Flask costs a request (``make bench-receiver`` shows the sum). Routes, views,
error handlers and the request object stay Flask's; only its public hooks are used.
"""

from collections.abc import Callable
from typing import Any

from flask import Flask, Request, Response
from flask.ctx import RequestContext
from flask.sessions import SessionInterface, SessionMixin
from werkzeug.exceptions import HTTPException
from werkzeug.routing import MapAdapter


class _NoSession(dict[str, Any], SessionMixin):
    """The one session that nobody has."""


class _NoSessions(SessionInterface):
    _none = _NoSession()

    def open_session(self, app: Flask, request: Request) -> SessionMixin:
        return self._none

    def is_null_session(self, obj: object) -> bool:
        return True


class _Context(RequestContext):
    app: "LeanFlask"

    def match_request(self) -> None:
        environ = self.request.environ
        try:
            rule, arguments = self.app.adapter.match(
                environ["PATH_INFO"], environ["REQUEST_METHOD"], return_rule=True
            )
            self.request.url_rule, self.request.view_args = rule, dict(arguments)
        except HTTPException as error:
            self.request.routing_exception = error


class LeanFlask(Flask):
    """A Flask for an API of few routes; of all hooks, only *begin* is called, before the view."""

    session_interface = _NoSessions()

    def __init__(self, name: str, begin: Callable[[], None]) -> None:
        super().__init__(name, static_folder=None)
        self.adapter = self.url_map.bind("localhost")
        self._begin = begin

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        return None if request is None else self.adapter

    def request_context(self, environ: dict[str, Any]) -> RequestContext:
        return _Context(self, environ)

    def full_dispatch_request(self) -> Response:
        self._begin()
        try:
            return self.make_response(self.dispatch_request())
        except Exception as error:
            return self.make_response(self.handle_user_exception(error))

    def ensure_sync(self, func: Any) -> Any:
        return func

    def do_teardown_request(self, *_: Any, **__: Any) -> None:
        pass

    def do_teardown_appcontext(self, *_: Any, **__: Any) -> None:
        pass
