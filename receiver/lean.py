"""Flask without what no webhook has a use for: sessions, signals, hosts, automatic OPTIONS.

They are half of what Flask costs a request (``make bench-receiver`` shows the sum). Routes, views,
error handlers and the request object stay Flask's; only its public hooks are used.
"""

import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flask import Flask, Request, Response
from flask.ctx import RequestContext
from flask.sessions import SessionInterface, SessionMixin
from werkzeug.exceptions import HTTPException
from werkzeug.routing import MapAdapter, Rule

AS_IT_IS = {"cache": False}


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
            rule, arguments = self.app.match(environ["REQUEST_METHOD"], environ["PATH_INFO"])
            self.request.url_rule, self.request.view_args = rule, dict(arguments)
        except HTTPException as error:
            self.request.routing_exception = error


class _LeanRequest(Request):
    """Reads the environ only as far as it is asked."""

    def __init__(self, environ: dict[str, Any]) -> None:
        self.environ = environ
        self._is_read = False

    def __getattr__(self, name: str) -> Any:
        """Only for what is not there yet."""
        if self._is_read:
            raise AttributeError(name)
        self._is_read = True
        super().__init__(self.environ, populate_request=False)
        return getattr(self, name)

    def close(self) -> None:
        """Close what was uploaded, where somebody looked."""
        if self._is_read:
            super().close()

    def get_data(self, *arguments: Any, **how: Any) -> Any:
        """The body; at once where it is whole, in memory and no larger than allowed."""
        stream, length = self.environ["wsgi.input"], self.environ.get("CONTENT_LENGTH", "")
        if type(stream) is io.BytesIO and not arguments and how == AS_IT_IS:
            body = stream.getvalue()
            if length == str(len(body)) and len(body) <= (self.max_content_length or 0):
                return body
        return super().get_data(*arguments, **how)


class BareResponse(Response):
    """A status alone: made once, given to many."""

    def __init__(self, status: int) -> None:
        super().__init__(status=status)

    def __call__(self, environ: Any, start_response: Callable[..., Any]) -> list[bytes]:
        start_response(self.status, [])
        return []


class LeanFlask(Flask):
    """A Flask for an API of few routes; of all hooks, only *begin* is called, before the view."""

    session_interface = _NoSessions()
    request_class = _LeanRequest

    def __init__(self, name: str, begin: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(name, static_folder=None)
        self.adapter = self.url_map.bind("localhost")
        self._plain: dict[tuple[str, str], Rule] = {}  # as many as there are rules
        self._begin = begin

    def match(self, method: str, path: str) -> tuple[Rule, Mapping[str, Any]]:
        """As the URL map does; a path that is a rule as it stands is looked for once."""
        if rule := self._plain.get((method, path)):
            return rule, {}
        rule, arguments = self.adapter.match(path, method, return_rule=True)
        if path == rule.rule and not arguments:  # the map takes //path for it too, and ///path
            self._plain[method, path] = rule
        return rule, arguments

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        return None if request is None else self.adapter

    def request_context(self, environ: dict[str, Any]) -> RequestContext:
        context = _Context(self, environ)
        context.request.max_content_length = self.config["MAX_CONTENT_LENGTH"]
        return context

    def wsgi_app(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        context = self.request_context(environ)
        context.push()
        try:
            return self._respond(context.request)(environ, start_response)
        finally:
            context.pop(None)

    def _respond(self, request: Request) -> Response:
        self._begin(request.environ)
        try:
            return self.make_response(self._view_of(request)(**(request.view_args or {})))
        except Exception as error:
            return self.make_response(self.handle_user_exception(error))

    def _view_of(self, request: Request) -> Callable[..., Any]:
        rule = request.url_rule
        if rule is None:
            self.raise_routing_exception(request)
        return self.view_functions[rule.endpoint]

    def ensure_sync(self, func: Any) -> Any:
        return func

    def do_teardown_request(self, *_: Any, **__: Any) -> None:
        pass

    def do_teardown_appcontext(self, *_: Any, **__: Any) -> None:
        pass
