"""Is this request what Gemini signed? Three schemes, on bytes, without any I/O.

``v1``   HMAC-SHA256 with a secret we share: https://www.standardwebhooks.com
``v1a``  Ed25519 with a key Gemini publishes
``jwt``  an RS256 token with a key Gemini publishes; it may say nothing about the body

Both kinds of published keys are the same for all of Gemini's customers: they prove that Gemini
sent something, not that it was meant for us.

``cryptography`` is imported on first use: a receiver of ``v1`` never pays for it. Tokens need no
library more: PyJWT, whose answers ours are compared with in the tests, takes 5 MiB.
"""

import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from msgspec import Struct

from gemhooks import heads
from gemhooks.errors import InvalidSignature, KeysUnavailable, Misconfigured

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

TOLERANCE_SECONDS = 300
MAX_ID_BYTES = 4096  # beyond AMQP's 255 it is still an event: the queue keys it by its digest
MAX_SIGNATURE_CHARS = 8192
MAX_ENTRIES = 32  # each may cost one Ed25519 check for each key
MAX_TIMESTAMP_DIGITS = 20
MIN_SECRET_BYTES = 16
ED25519_BYTES = 64
SECRET_PREFIX = "whsec_"  # noqa: S105 - the public prefix, not a secret
# In no random secret, as it stands or decoded; repeated often enough, some of them are base64.
PLACEHOLDERS = ("changeme", "replaceme", "placeholder", "yoursecret", "yourwebhook")

# Nobody documents the names of such claims: these are what others use, whatever joins the words.
BODY_HASH_CLAIMS = frozenset(
    {"sha256", "digest"}
    | {
        what + how
        for what in ("body", "content", "payload", "request", "requestbody")
        for how in ("digest", "hash", "sha256")
    }
)
EVENT_CLAIMS = ("event", "payload", "body")  # where the event may stand as a whole
# Between entries of several lines that somebody joined without a space; no base64 has a comma.
JOINT = re.compile(r",(?=v\d+[a-z]*,)")
ALGORITHM = re.compile(r"^sha-?256[:=-]", re.IGNORECASE)  # before a hash


class Scheme(StrEnum):
    """How a webhook was signed."""

    V1 = "v1"
    V1A = "v1a"
    JWT = "jwt"


class Trust(StrEnum):
    """What the signature covers: the whole body, or only the fact that something happened."""

    BODY = "body"
    HINT = "hint"


class Reason(StrEnum):
    """Every reason that :func:`verify` gives with an ``InvalidSignature``."""

    MISSING_HEADER = "missing_header"
    BAD_TIMESTAMP = "bad_timestamp"
    TOO_OLD = "too_old"
    TOO_NEW = "too_new"
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    BAD_ID = "bad_id"
    UNSUPPORTED_SCHEME = "unsupported_scheme"
    MISMATCH = "mismatch"
    NO_AUDIENCE = "no_audience"
    BAD_TOKEN = "bad_token"  # noqa: S105 - a reason, not a password
    BAD_ALGORITHM = "bad_algorithm"
    BAD_AUDIENCE = "bad_audience"
    BAD_ISSUER = "bad_issuer"
    UNKNOWN_KEY = "unknown_key"
    CLAIMS_MISMATCH = "claims_mismatch"


class Webhook(Struct, frozen=True):
    """A request whose signature was checked. Only :func:`verify` makes one.

    *key* is the fingerprint of the key that signed it: public, fit for a log.
    """

    id: str
    timestamp: int
    body: bytes
    scheme: Scheme
    trust: Trust
    key: str

    def __repr__(self) -> str:
        """Without the body."""
        return f"Webhook({self.id!r}, {self.timestamp}, {self.scheme}, {self.trust}, {self.key!r})"


@dataclass(frozen=True, slots=True)
class Secret:
    """A key shared with Gemini and its public *fingerprint*; an empty key is Misconfigured."""

    key: bytes = field(repr=False)
    fingerprint: str

    def __post_init__(self) -> None:
        if not self.key:  # anybody can sign with it
            raise Misconfigured("A webhook secret must not be empty.")


@dataclass(frozen=True, slots=True)
class Ed25519Key:
    """A published key for ``v1a``."""

    key: "Ed25519PublicKey" = field(repr=False)
    fingerprint: str


@dataclass(frozen=True, slots=True)
class RsaKey:
    """A published key for ``jwt``."""

    key: "RSAPublicKey" = field(repr=False)
    fingerprint: str


@dataclass(frozen=True, slots=True)
class JwtRules:
    """Whom a token must be for, and by whom: without an audience, every token is refused."""

    audience: tuple[str, ...] = ()
    issuer: str | None = None


class Keys(Protocol):
    """The keys to check with; the published ones may raise KeysUnavailable."""

    @property
    def secrets(self) -> Sequence[Secret]:
        """The shared secrets, any of which may have signed."""
        ...

    def ed25519_keys(self) -> Iterable[Ed25519Key]:
        """Return the published keys for ``v1a``; it may fetch newer ones after the last."""
        ...

    def rsa_keys(self, kid: str | None) -> Iterable[RsaKey]:
        """Return those for ``jwt`` with this *kid*, for None the only one; as ed25519_keys()."""
        ...


def verify(
    headers: Mapping[str, str],
    body: bytes,
    keys: Keys,
    *,
    now: float,
    schemes: Collection[Scheme] = (Scheme.V1,),
    tolerance: int = TOLERANCE_SECONDS,
    jwt_rules: JwtRules = JwtRules(),
) -> Webhook:
    """Return the webhook if *body* was signed with one of *keys*, at most *tolerance* ago.

    *headers* have lower-case names and values decoded as latin-1, as WSGI hands them over.

    Raises InvalidSignature with one of :class:`Reason`, or KeysUnavailable if there is no key
    to check with; nothing else, whatever the request holds.
    """
    signature = headers.get("webhook-signature", "")
    if not signature or signature.isspace():
        _refuse(Reason.MISSING_HEADER)
    if len(signature) > MAX_SIGNATURE_CHARS:
        _refuse(Reason.TOO_LARGE)
    request = _Request(headers, body, now, tolerance)
    entries = _entries(signature)
    if token := _token(entries):
        if Scheme.JWT not in schemes:
            _refuse(Reason.UNSUPPORTED_SCHEME)
        return _verify_jwt(token, request, keys, jwt_rules)
    message = _message(request)
    hmacs, ed25519s = _signatures(entries, schemes)
    return _verify_v1(message, hmacs, keys) or _verify_v1a(message, ed25519s, keys)


def sign_v1(webhook_id: str, timestamp: int | str, body: bytes, secret: bytes) -> str:
    """Return the ``v1,...`` entry for a request, as Gemini makes it for static webhooks."""
    mac = hmac.digest(secret, _signed(webhook_id.encode(), str(timestamp), body), "sha256")
    return "v1," + _b64(mac)


def sign_v1a(
    webhook_id: str, timestamp: int | str, body: bytes, private_key: "Ed25519PrivateKey"
) -> str:
    """Return the ``v1a,...`` entry for a request, as Gemini makes it for dynamic webhooks."""
    return "v1a," + _b64(private_key.sign(_signed(webhook_id.encode(), str(timestamp), body)))


def sign_jwt(
    claims: Mapping[str, Any], private_key: "RSAPrivateKey", *, kid: str | None = None
) -> str:
    """Return a signature header with a token, as documented for dynamic webhooks."""
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - see the top
    from cryptography.hazmat.primitives.asymmetric import padding  # noqa: PLC0415

    header = {"alg": "RS256", "typ": "JWT", **({} if kid is None else {"kid": kid})}
    signed = f"{_part(header)}.{_part(claims)}"
    made = private_key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{signed}.{_b64url(made)}"


def _part(of_token: Mapping[str, Any]) -> str:
    return _b64url(json.dumps(dict(of_token), separators=(",", ":")).encode())


def _b64url(data: bytes) -> str:
    return _b64(data).rstrip("=").replace("+", "-").replace("/", "_")


def fingerprint(key: bytes) -> str:
    """Return a short public name for *key*, from which the key cannot be had."""
    return hashlib.sha256(b"gemhooks key:" + key).hexdigest()[:12]


def truncated(key: bytes) -> str:
    """Return the form in which Gemini lists a secret: its last four characters."""
    return f"{SECRET_PREFIX}...{_b64(key)[-4:]}"


def decode_secret(text: str) -> bytes:
    """Return the key in *text*: base64 as Gemini shows it, ``whsec_`` and padding optional.

    Raises Misconfigured, without showing the secret, if *text* would not decode to what was
    meant, is a placeholder or decodes to fewer than 16 bytes: no real secret is that short, most
    words are.
    """
    if _is_placeholder(_encoded(text)):
        raise Misconfigured(
            "A webhook secret is a placeholder: replace it with the one Gemini showed."
        )
    key = decode_any_secret(text)
    if len(key) < MIN_SECRET_BYTES:
        raise Misconfigured(f"A webhook secret is shorter than {MIN_SECRET_BYTES} bytes.")
    return key


def decode_any_secret(text: str) -> bytes:
    """The same of a secret that nobody should rely on: to see how a signature by it is refused."""
    encoded = _encoded(text)
    if problem := _problem(encoded):
        raise Misconfigured(f"A webhook secret {problem}.")
    unpadded = encoded.rstrip("=")
    key = _canonical(_padded(unpadded))
    if key is None or encoded not in (unpadded, _b64(key)):
        raise Misconfigured("A webhook secret is not complete base64: copy it again.")
    return key


def _encoded(text: str) -> str:
    return text.strip().removeprefix(SECRET_PREFIX)


def _problem(encoded: str) -> str | None:
    if not encoded.strip("="):
        return "is empty"
    if "..." in encoded or "…" in encoded:
        return "is only the shortened form of one: use the text shown when it was created"
    if "-" in encoded or "_" in encoded:
        return "is URL-safe base64, but Gemini's secrets are standard base64"
    if any(c.isspace() for c in encoded):
        return "has white space inside"
    return None


def _is_placeholder(encoded: str) -> bool:
    """As it stands or decoded, for those who encode one so that it fits."""
    if len(set(encoded.rstrip("="))) == 1:
        return "." not in encoded
    decoded = (_canonical(_padded(encoded)) or b"").decode("latin-1")
    texts = ["".join(filter(str.isalnum, each.lower())) for each in (encoded, decoded)]
    return any(placeholder in text for placeholder in PLACEHOLDERS for text in texts)


class _Request(NamedTuple):  # a tuple is made in a third of a dataclass's time
    headers: Mapping[str, str]
    body: bytes
    now: float
    tolerance: int


class _Message(NamedTuple):
    id: str
    timestamp: int
    body: bytes
    signed: bytes


def _refuse(reason: Reason) -> NoReturn:
    raise InvalidSignature(str(reason))


def _b64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


def _canonical(text: str) -> bytes | None:
    """Decode standard base64, unless another text would decode to the same bytes."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:  # not ASCII; binascii.Error is one too
        return None
    return data if _b64(data) == text else None


def _canonical_urlsafe(text: str) -> bytes | None:
    if "+" in text or "/" in text or "=" in text:
        return None
    return _canonical(_padded(text.replace("-", "+").replace("_", "/")))


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)


def _signed(webhook_id: bytes, timestamp: str, body: bytes) -> bytes:
    return b"%b.%b.%b" % (webhook_id, timestamp.encode(), body)


def _message(request: _Request) -> _Message:
    sent, name = _id(request.headers.get("webhook-id", ""))
    text = request.headers.get("webhook-timestamp", "")
    seconds = _timestamp(text, request)
    return _Message(name, seconds, request.body, _signed(sent, text, request.body))


def _id(header: str) -> tuple[bytes, str]:
    """Return the id as it was sent, which is what was signed, and as text.

    Bytes that are no UTF-8 are refused: every later step (queue, ledger, log) needs text, and
    a guess could make one id of two.
    """
    if not header:
        _refuse(Reason.MISSING_HEADER)
    if len(header) > MAX_ID_BYTES:
        _refuse(Reason.TOO_LARGE)
    try:
        sent = header.encode("latin-1")
        text = sent.decode()
    except UnicodeError:
        _refuse(Reason.BAD_ID)
    if not text.isprintable() or ("." in text and _ambiguous(text)):
        _refuse(Reason.BAD_ID)
    return sent, text


def _ambiguous(webhook_id: str) -> bool:
    # "a.1.2.x" is signed for the id "a", but would fit the id "a.1" as well. If no later part
    # of an id is a number, the first number is the timestamp, and there is one way to read it.
    return any(_is_decimal(part) for part in webhook_id.split(".")[1:])


def _is_decimal(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _timestamp(text: str, request: _Request) -> int:
    if not text:
        _refuse(Reason.MISSING_HEADER)
    if len(text) > MAX_TIMESTAMP_DIGITS or not _is_decimal(text):
        _refuse(Reason.BAD_TIMESTAMP)
    seconds = int(text)
    if seconds < request.now - request.tolerance:
        _refuse(Reason.TOO_OLD)
    if seconds > request.now + request.tolerance:
        _refuse(Reason.TOO_NEW)
    return seconds


def _signatures(
    entries: Sequence[str], schemes: Collection[Scheme]
) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Return the ``v1`` and the ``v1a`` signatures to check; there is at least one."""
    if len(entries) > MAX_ENTRIES:
        _refuse(Reason.TOO_LARGE)
    found: dict[str, list[bytes]] = {one: [] for one in schemes}
    unsupported = False
    for entry in entries:
        version, _, text = entry.rstrip(",").partition(",")  # of several lines, joined on the way
        signature = _canonical(text) if text else None
        if signature is None:
            continue
        if version in found:
            found[version].append(signature)
        else:
            unsupported = True
    hmacs, ed25519s = found.get("v1", []), found.get("v1a", [])
    if not hmacs and not ed25519s:
        _refuse(Reason.UNSUPPORTED_SCHEME if unsupported else Reason.MALFORMED)
    return hmacs, ed25519s


def _verify_v1(message: _Message, signatures: Sequence[bytes], keys: Keys) -> Webhook | None:
    if not signatures:
        return None
    secrets = keys.secrets
    if not secrets:  # nothing to check with is not the same as nothing to check
        raise KeysUnavailable("no_secret")
    for secret in secrets:
        expected = hmac.digest(secret.key, message.signed, "sha256")
        for signature in signatures:
            if hmac.compare_digest(expected, signature):
                return _bound(message, Scheme.V1, secret.fingerprint)
    return None


def _verify_v1a(message: _Message, signatures: Sequence[bytes], keys: Keys) -> Webhook:
    signatures = [one for one in signatures if len(one) == ED25519_BYTES]
    if signatures:
        for key in keys.ed25519_keys():
            if any(_is_signed(message.signed, one, key) for one in signatures):
                return _bound(message, Scheme.V1A, key.fingerprint)
    _refuse(Reason.MISMATCH)


def _is_signed(signed: bytes, signature: bytes, key: Ed25519Key) -> bool:
    from cryptography import exceptions  # noqa: PLC0415 - see the top

    try:
        key.key.verify(signature, signed)
    except exceptions.InvalidSignature:
        return False
    return True


def _bound(message: _Message, scheme: Scheme, key: str) -> Webhook:
    return Webhook(message.id, message.timestamp, message.body, scheme, Trust.BODY, key)


def _entries(header: str) -> list[str]:
    return (JOINT.sub(" ", header) if header.count(",") > 1 else header).split()


def _token(entries: Sequence[str]) -> str | None:
    """Return the JWT if the header has the shape of one: no other entry has two dots."""
    if len(entries) == 2 and entries[0].lower() == "bearer":  # noqa: PLR2004
        entries = entries[1:]
    if len(entries) == 1 and entries[0].count(".") == 2 and "," not in entries[0]:  # noqa: PLR2004
        return entries[0]
    return None


def _verify_jwt(token: str, request: _Request, keys: Keys, rules: JwtRules) -> Webhook:
    if not rules.audience:
        _refuse(Reason.NO_AUDIENCE)
    claims, key = _claims(token, keys, rules)
    _check_times(claims, request)
    _check_event(claims, request.body)
    bound = _check_hash(claims, request.body)
    return Webhook(
        id=_jwt_id(claims, request),
        timestamp=_jwt_timestamp(claims, request),
        body=request.body,
        scheme=Scheme.JWT,
        trust=Trust.BODY if bound else Trust.HINT,
        key=key,
    )


def _jwt_header(token: str) -> Mapping[str, Any]:
    """Return the header of *token*; one that wants to choose how it is checked is refused."""
    parts = [_canonical_urlsafe(part) for part in token.split(".")]
    if not all(parts):
        _refuse(Reason.BAD_TOKEN)
    header = _json_object(parts[0] or b"")
    if header is None:
        _refuse(Reason.BAD_TOKEN)
    if header.get("alg") != "RS256":
        _refuse(Reason.BAD_ALGORITHM)
    if not header.keys().isdisjoint({"crit", "b64", "jku", "jwk", "x5u", "x5c"}):
        _refuse(Reason.BAD_TOKEN)
    return header


def _kid(header: Mapping[str, Any]) -> str | None:
    if "kid" not in header:
        return None
    kid = header["kid"]
    if not isinstance(kid, str):
        _refuse(Reason.BAD_TOKEN)
    return kid


def _claims(token: str, keys: Keys, rules: JwtRules) -> tuple[Mapping[str, Any], str]:
    kid = _kid(_jwt_header(token))
    reason = Reason.UNKNOWN_KEY
    for key in keys.rsa_keys(kid):
        claims = _decode(token, key, rules)
        if claims is not None:
            return claims, key.fingerprint
        reason = Reason.MISMATCH
    _refuse(reason)


def _decode(token: str, key: RsaKey, rules: JwtRules) -> Mapping[str, Any] | None:
    """The claims, if *key* signed them (RFC 7515, its compact form); the times are unchecked."""
    signed, _, signature = token.rpartition(".")
    if not _is_rs256(signed, signature, key):
        return None
    claims = _json_object(_canonical_urlsafe(signed.partition(".")[2]) or b"")
    if claims is None or not all(isinstance(claims.get(name, ""), str) for name in ("sub", "jti")):
        _refuse(Reason.BAD_TOKEN)
    _check_issuer(claims, rules)
    _check_audience(claims, rules)
    return claims


def _is_rs256(signed: str, signature: str, key: RsaKey) -> bool:
    from cryptography import exceptions  # noqa: PLC0415 - see the top
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import padding  # noqa: PLC0415

    made = _canonical_urlsafe(signature) or b""
    try:
        key.key.verify(made, signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    except exceptions.InvalidSignature:
        return False
    return True


def _check_issuer(claims: Mapping[str, Any], rules: JwtRules) -> None:
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        _refuse(Reason.BAD_ISSUER)


def _check_audience(claims: Mapping[str, Any], rules: JwtRules) -> None:
    """RFC 7519, 4.1.3: one text or a list of them, of which one must be ours."""
    meant = claims.get("aud")
    meant = [meant] if isinstance(meant, str) else meant
    if not isinstance(meant, list) or not all(isinstance(each, str) for each in meant):
        _refuse(Reason.BAD_AUDIENCE)
    if set(meant).isdisjoint(rules.audience):
        _refuse(Reason.BAD_AUDIENCE)


def _check_times(claims: Mapping[str, Any], request: _Request) -> None:
    """Check exp, nbf and iat where present; without an exp, a token ages as a webhook does.

    One with neither would be good for ever, since its timestamp's header is not signed.
    """
    expires, starts, issued = (_seconds(claims, name) for name in ("exp", "nbf", "iat"))
    expires = issued if expires is None else expires
    if expires is None:
        _refuse(Reason.BAD_TOKEN)
    if expires < request.now - request.tolerance:
        _refuse(Reason.TOO_OLD)
    if max(starts or 0, issued or 0) > request.now + request.tolerance:
        _refuse(Reason.TOO_NEW)


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(Reason.BAD_TOKEN)
    if not 0 <= value < 10**MAX_TIMESTAMP_DIGITS:  # NaN and infinity are neither
        _refuse(Reason.BAD_TOKEN)
    return value


def _check_event(claims: Mapping[str, Any], body: bytes) -> None:
    """Refuse a token that names another event than the body does, wherever it names it."""
    actual = None
    for place in (claims, *(claims.get(name) for name in EVENT_CLAIMS)):
        named = heads.named_in(place)
        if any(named):
            actual = actual or heads.named_by(body)
            if any(a and a != b for a, b in zip(named, actual, strict=True)):
                _refuse(Reason.CLAIMS_MISMATCH)


def _check_hash(claims: Mapping[str, Any], body: bytes) -> bool:
    """Say whether the claims bind the body by its hash; a wrong hash is refused."""
    given = [value for name, value in claims.items() if _is_body_hash(name)]
    if not given:
        return False
    digest = hashlib.sha256(body).digest()
    if not all(isinstance(one, str) and _is_digest(one, digest) for one in given):
        _refuse(Reason.CLAIMS_MISMATCH)
    return True


def _is_body_hash(claim: str) -> bool:
    return claim.lower().replace("_", "").replace("-", "") in BODY_HASH_CLAIMS


def _is_digest(text: str, digest: bytes) -> bool:
    """Compare with every usual way to write a SHA-256, since none is documented."""
    text = ALGORITHM.sub("", text).strip(":")
    standard = _b64(digest)
    urlsafe = standard.replace("+", "-").replace("/", "_")
    spellings = (standard, standard.rstrip("="), urlsafe, urlsafe.rstrip("="))
    return text in spellings or text.lower() == digest.hex()


def _json_object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        return None
    return value if isinstance(value, dict) else None


def _jwt_id(claims: Mapping[str, Any], request: _Request) -> str:
    if header := request.headers.get("webhook-id", ""):
        return _id(header)[1]
    jti = claims.get("jti", "")  # _decode refused it if it is no string
    return _id(jti.encode(errors="surrogatepass").decode("latin-1"))[1]


def _jwt_timestamp(claims: Mapping[str, Any], request: _Request) -> int:
    if header := request.headers.get("webhook-timestamp", ""):
        return _timestamp(header, request)
    issued = _seconds(claims, "iat")
    if issued is None:
        _refuse(Reason.MISSING_HEADER)
    return int(issued)
