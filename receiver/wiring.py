"""From settings to what the routes need, or one sentence about what is wrong with them."""

import re
from collections.abc import Callable

import structlog
from prometheus_client import CollectorRegistry

from gemhooks.errors import Misconfigured
from gemhooks.keys import GOOGLE_JWKS_URL, JwksCache, KeyRing, SigningSecrets
from gemhooks.messages import Publisher
from gemhooks.metrics import KeyMetrics, ReceiverMetrics
from gemhooks.settings import Settings
from gemhooks.signing import JwtRules, Scheme
from receiver.app import Receiver

log = structlog.get_logger()

TOKEN = re.compile(r"[A-Za-z0-9_~.-]{8,255}")  # as it stands in a URL; 8 random ones are 48 bits


def receiver_of(
    settings: Settings,
    keys: KeyRing,
    publisher: Publisher,
    registry: CollectorRegistry,
    ready: Callable[[], bool],
) -> Receiver:
    KeyMetrics(registry, keys)
    return Receiver(
        keys=keys,
        keys_at_once=keys.at_once(),
        publisher=publisher,
        metrics=ReceiverMetrics(registry),
        ready=ready,
        schemes=schemes_of(settings),
        path_tokens=tokens_of(settings),
        tolerance=settings.tolerance,
        max_body=settings.max_body,
        publish_timeout=settings.publish_timeout,
        jwt_rules=JwtRules(settings.jwt_audience, settings.jwt_issuer),
    )


def schemes_of(settings: Settings) -> frozenset[Scheme]:
    try:
        schemes = frozenset(Scheme(each) for each in settings.schemes)
    except ValueError:
        raise Misconfigured("GEMHOOKS_SCHEMES may name v1, v1a and jwt only.") from None
    if not schemes:
        raise Misconfigured("GEMHOOKS_SCHEMES must name at least one of v1, v1a and jwt.")
    if schemes - {Scheme.V1} and not tokens_of(settings):
        raise Misconfigured(
            "GEMHOOKS_SCHEMES: v1a and jwt need GEMHOOKS_PATH_TOKENS, since Google signs for all"
            " its customers with the same keys."
        )
    if Scheme.JWT in schemes and not settings.jwt_audience:
        raise Misconfigured("GEMHOOKS_SCHEMES: jwt needs GEMHOOKS_JWT_AUDIENCE.")
    return schemes


def tokens_of(settings: Settings) -> tuple[str, ...]:
    tokens = tuple(settings.path_tokens.get_secret_value().replace(",", " ").split())
    if not all(TOKEN.fullmatch(each) for each in tokens):
        raise Misconfigured(
            "GEMHOOKS_PATH_TOKENS: each needs 8 characters or more of A-Z a-z 0-9 - _ . ~ only."
        )
    return tokens


def key_ring(settings: Settings) -> KeyRing:
    """All keys; the published ones are being fetched when it returns."""
    schemes = schemes_of(settings)
    keys = KeyRing(
        _secrets(settings) if Scheme.V1 in schemes else None,
        jwks=_published(settings) if schemes - {Scheme.V1} else None,
    )
    log.info("keys_loaded", secrets=[each.fingerprint for each in keys.secrets])
    return keys


def _secrets(settings: Settings) -> SigningSecrets:
    if settings.webhook_secret_path:  # read again whenever it changes
        return SigningSecrets(path=settings.webhook_secret_path)
    return SigningSecrets(settings.webhook_secret.get_secret_value())


def _published(settings: Settings) -> JwksCache:
    try:
        cache = JwksCache(settings.jwks_url or GOOGLE_JWKS_URL, max_wait=settings.jwks_wait)
    except Misconfigured as error:
        raise Misconfigured(f"GEMHOOKS_JWKS_URL: {error}") from None
    if settings.jwks_url and not settings.jwks_url.startswith("https://"):
        log.warning("jwks_url_without_tls", reason="whoever is on the way can replace the keys")
    cache.refresh()
    return cache
