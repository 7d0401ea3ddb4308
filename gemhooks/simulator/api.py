"""The API as a Flask blueprint: who may come in, and which routes there are."""

from flask import Blueprint, request

from gemhooks.simulator.interactions import InteractionRoutes
from gemhooks.simulator.refusals import Refusal
from gemhooks.simulator.state import State
from gemhooks.simulator.webhooks import WebhookRoutes

KEY_MISSING = "Method doesn't allow unregistered callers (callers without established identity)."


def create_api(state: State, webhooks: WebhookRoutes, interactions: InteractionRoutes) -> Blueprint:
    api = Blueprint("api", __name__)
    api.before_request(require_key)
    api.before_request(state.limit_rate)
    webhooks.register(api)
    interactions.register(api)
    return api


def require_key() -> None:
    """Any key will do, but none at all will not."""
    if not (request.headers.get("x-goog-api-key") or request.args.get("key")):
        raise Refusal(403, KEY_MISSING)
