"""The API as a Flask blueprint: who may come in, and which routes there are."""

from collections.abc import Iterable
from typing import Protocol

from flask import Blueprint, request

from gemhooks.simulator.file_routes import FileRoutes
from gemhooks.simulator.refusals import Refusal
from gemhooks.simulator.state import State

KEY_MISSING = "Method doesn't allow unregistered callers (callers without established identity)."


class Routes(Protocol):
    def register(self, api: Blueprint) -> None: ...


def create_api(state: State, routes: Iterable[Routes]) -> Blueprint:
    api = guarded(Blueprint("api", __name__), state)
    for each in routes:
        each.register(api)
    return api


def create_uploads(state: State, files: FileRoutes) -> Blueprint:
    uploads = Blueprint("uploads", __name__)
    uploads.before_request(require_key_to_start)
    uploads.before_request(state.limit_rate)
    files.register_uploads(uploads)
    return uploads


def create_downloads(state: State, files: FileRoutes) -> Blueprint:
    downloads = guarded(Blueprint("downloads", __name__), state)
    files.register_downloads(downloads)
    return downloads


def guarded(blueprint: Blueprint, state: State) -> Blueprint:
    blueprint.before_request(require_key)
    blueprint.before_request(state.limit_rate)
    return blueprint


def require_key_to_start() -> None:
    """The id of an upload is its key: the official client sends no other with the parts."""
    if "upload_id" not in request.args:
        require_key()


def require_key() -> None:
    """Any key will do, but none at all will not."""
    if not (request.headers.get("x-goog-api-key") or request.args.get("key")):
        raise Refusal(403, KEY_MISSING)
