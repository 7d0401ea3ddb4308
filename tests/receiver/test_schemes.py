"""The three ways to sign, through the real receiver, with keys from a real web server."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest
import urllib3
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import RSAAlgorithm
from structlog.testing import capture_logs

from gemhooks import topology
from gemhooks.errors import Misconfigured
from gemhooks.keys import JwksCache, KeyRing, SigningSecrets
from gemhooks.messages import Message
from gemhooks.settings import Settings
from gemhooks.signing import decode_secret, sign_jwt, sign_v1, sign_v1a
from gemhooks.simulator import Simulator, Variants
from gemhooks.testing import MemoryPublisher
from receiver.wiring import key_ring
from tests.receiver.serving import BODY, PATH, SECRET, Site, request, served, signed
from tests.services.waiting import wait_until
from tests.services.website import Website

TOKEN = "a-token_that.nobody~guesses"
DYNAMIC = f"{PATH}/{TOKEN}"
R1, R2 = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
ED25519 = [Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in range(4)]
HOUR = 3600.0
NOW = 1_790_000_000
AUDIENCE = "https://example.org/hook"


def rsa_jwk(kid: str, key: rsa.RSAPrivateKey = R1, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    del found["key_ops"]
    return {**found, "kid": kid, "use": "sig", "alg": "RS256", **more}


def ed25519_jwk(key: Ed25519PrivateKey) -> dict[str, Any]:
    x = base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).rstrip(b"=").decode()
    return {"kty": "OKP", "crv": "Ed25519", "x": x}


def document(*members: object) -> bytes:
    return json.dumps({"keys": members}).encode()


@pytest.fixture
def jwks() -> Iterator[Website]:
    with Website() as site:
        site.body = document(rsa_jwk("r1"), *map(ed25519_jwk, ED25519[:3]))
        yield site


def settings(jwks: Website) -> dict[str, str]:
    return settings_for(jwks.url)


def settings_for(jwks_url: str) -> dict[str, str]:
    return {
        "GEMHOOKS_SCHEMES": "v1 v1a jwt",
        "GEMHOOKS_PATH_TOKENS": f"another-token-from-before {TOKEN}",
        "GEMHOOKS_JWKS_URL": jwks_url,
        "GEMHOOKS_JWKS_WAIT": "60s",
        "GEMHOOKS_JWT_AUDIENCE": f"another, {AUDIENCE}",
    }


@pytest.fixture
def site(jwks: Website) -> Iterator[Site]:
    with served(env=settings(jwks)) as site:
        yield site


def dynamic(signature: str, *, webhook_id: str = "msg_1", at: int | None = None) -> dict[str, str]:
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(time.time()) if at is None else at),
        "webhook-signature": signature,
    }


def v1a(body: bytes = BODY, key: Ed25519PrivateKey = ED25519[1]) -> dict[str, str]:
    now = int(time.time())
    return dynamic(sign_v1a("msg_1", now, body, key), at=now)


def token(key: rsa.RSAPrivateKey = R1, kid: str | None = "r1", **claims: Any) -> dict[str, str]:
    claims = {"aud": AUDIENCE, "exp": time.time() + 60, **claims}
    return dynamic(sign_jwt(claims, key, kid=kid))


def post(site: Site, headers: Mapping[str, str], *, path: str = DYNAMIC, body: bytes = BODY) -> int:
    return site.status(request(body, headers=headers, path=path))


# -- which scheme counts where


def test_each_scheme_is_accepted_at_the_secret_path(site: Site) -> None:
    statuses = [post(site, each) for each in (signed(BODY), v1a(), token())]

    assert statuses == [204] * 3
    assert [(m.scheme, m.trust) for m in site.publisher.messages] == [
        ("v1", "body"),
        ("v1a", "body"),
        ("jwt", "hint"),
    ]


@pytest.mark.parametrize("headers", [v1a, token])
def test_at_the_public_path_google_s_own_keys_count_for_nothing(site: Site, headers: Any) -> None:
    assert post(site, headers(), path=PATH) == 401
    assert site.failures("unsupported_scheme") == 1
    assert site.publisher.messages == []


def test_any_of_several_tokens_opens_the_secret_path_and_none_is_logged(site: Site) -> None:
    with capture_logs() as lines:
        assert post(site, token(), path=f"{PATH}/another-token-from-before") == 204
        assert post(site, token(), path=f"{PATH}/{TOKEN}x") == 404
        assert post(site, token(), path=f"{PATH}/{TOKEN}%ff") == 404
        assert post(site, {}, path=f"{PATH}/") == 404

    assert TOKEN not in str(lines)
    assert "another-token" not in str(lines)
    assert (site.count("not_found"), site.total()) == (3, 4)


# -- what a token says of its body


def test_claims_that_name_another_event_than_the_body_are_refused(site: Site) -> None:
    same: dict[str, Any] = {"type": "interaction.completed", "data": {"id": "int_1"}}

    assert post(site, token(**same)) == 204
    assert post(site, token(**{**same, "type": "interaction.failed"})) == 401
    assert post(site, token(**{**same, "data": {"id": "int_2"}})) == 401
    assert post(site, token(body_sha256="0" * 64)) == 401
    assert site.failures("claims_mismatch") == 3


def test_only_a_token_that_holds_the_hash_of_the_body_vouches_for_it(site: Site) -> None:
    assert post(site, token(body_sha256=hashlib.sha256(BODY).hexdigest())) == 204
    assert site.publisher.messages[0].trust == "body"


def test_a7_08_claims_that_are_empty_are_for_nobody(site: Site) -> None:
    assert post(site, dynamic(sign_jwt({}, R1, kid="r1"))) == 401


@pytest.mark.parametrize(
    ("scheme", "claims", "trust"),
    [
        ("v1a", "bare", "body"),
        ("jwt", "bare", "hint"),
        ("jwt", "event", "hint"),
        ("jwt", "body_hash", "body"),
    ],
)
def test_what_the_simulator_signs_in_gemini_s_place_is_accepted(
    scheme: Any, claims: Any, trust: str
) -> None:
    variants = Variants(jwt_audience=AUDIENCE, jwt_claims=claims)
    with Simulator(delay=0.01, variants=variants) as gemini:
        env = {**settings_for(gemini.jwks_url), "GEMINI_WEBHOOK_SECRET": gemini.secret}
        with served(env=env) as site:
            event = {"type": "batch.succeeded", "data": {"id": "b1"}, "scheme": scheme}
            uris = [f"http://127.0.0.1:{site.port}{DYNAMIC}"]
            urllib3.request("POST", f"{gemini.url}/control/events", json={**event, "uris": uris})
            wait_until(lambda: site.publisher.messages, "the event arrives")

    message = site.publisher.messages[0]
    assert (message.type, message.scheme, message.trust) == ("batch.succeeded", scheme, trust)


# -- A1-01, A1-02: any key of several


def test_a1_01_a_v1a_signature_by_any_published_key_counts_and_no_other(site: Site) -> None:
    assert [post(site, v1a(key=each)) for each in ED25519] == [204, 204, 204, 401]
    assert post(site, v1a(), body=BODY.replace(b"int_1", b"int_2")) == 401
    assert len(site.publisher.messages) == 3


def test_a1_02_during_a_rotation_any_valid_entry_by_any_secret_counts() -> None:
    new, old, unknown = (base64.b64encode(bytes([n]) * 32).decode() for n in range(1, 4))
    now = int(time.time())

    def by(secret: str) -> str:
        return sign_v1("msg_1", now, BODY, decode_secret(secret))

    rotated = [
        f"{by(old)} {by(new)}",
        f"{by(new)} {by(old)}",
        f"v1,AAAA v2,zzzz {by(unknown)} {by(new)}",
        by(old),
        by(unknown),
    ]
    with served(env={"GEMINI_WEBHOOK_SECRET": f"whsec_{new},whsec_{old}"}) as site:
        statuses = [post(site, dynamic(each, at=now), path=PATH) for each in rotated]
    with served(env={"GEMINI_WEBHOOK_SECRET": f"whsec_{new}"}) as site:
        retired = post(site, dynamic(by(old), at=now), path=PATH)

    assert [*statuses, retired] == [204, 204, 204, 204, 401, 401]


# -- A1-10, A1-12, A1-13: what a header may hold

GARBAGE = (
    "",
    "v1",
    ",",
    "v1,",
    "v1,a",
    "v1,!!!",
    "junk sig",
    "sig  sig",
    "v1,A,B",
    "v1,AAAA " * 8000,
    "a.b.c",
    "eyJ.x.y",
    "v1,caf\xe9",
    "\xe9.\xe9.\xe9",
)


@pytest.mark.parametrize("path", [PATH, DYNAMIC])
def test_a1_10_a1_12_a_malformed_signature_is_401_without_a_traceback(
    site: Site, path: str
) -> None:
    with capture_logs() as lines:
        statuses = {post(site, dynamic(each), path=path) for each in GARBAGE}

    assert statuses == {401}
    assert [line["outcome"] for line in lines] == ["bad_signature"] * len(GARBAGE)
    assert not any("exc_info" in line for line in lines)


def test_a1_10_a_valid_entry_after_garbage_counts(site: Site) -> None:
    valid = signed(BODY)
    short = [each for each in GARBAGE if len(each) < 1000]
    mixed = [f"{each} {valid['webhook-signature']}" for each in short]

    statuses = {post(site, {**valid, "webhook-signature": each}, path=PATH) for each in mixed}

    assert statuses == {204}


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a1_10_no_header_may_be_missing(site: Site, missing: str) -> None:
    for headers, path in ((signed(BODY), PATH), (v1a(), DYNAMIC)):
        assert post(site, {k: v for k, v in headers.items() if k != missing}, path=path) == 401


def test_a1_12_an_id_that_is_no_text_is_refused_though_rightly_signed(site: Site) -> None:
    now = int(time.time())
    message = b"msg_\xe9.%d." % now + BODY
    mac = hmac.digest(decode_secret(SECRET), message, hashlib.sha256)
    signature = "v1," + base64.b64encode(mac).decode()

    assert post(site, dynamic(signature, webhook_id="msg_\xe9", at=now), path=PATH) == 401
    assert site.failures("bad_id") == 1


@pytest.mark.parametrize(
    ("offset", "shape", "status", "reason"),
    [
        (-300, "{}", 204, ""),
        (300, "{}", 204, ""),
        (-301, "{}", 401, "too_old"),
        (301, "{}", 401, "too_new"),
        (0, "{}000", 401, "too_new"),
        (0, "{}.0", 401, "bad_timestamp"),
        (0, "1_{}", 401, "bad_timestamp"),
        (0, "+{}", 401, "bad_timestamp"),
        (0, "{:#x}", 401, "bad_timestamp"),
        (0, "-1", 401, "bad_timestamp"),
        (0, "NaN", 401, "bad_timestamp"),
        (0, "1e400", 401, "bad_timestamp"),
        (0, "9" * 400, 401, "bad_timestamp"),
        (0, "１７９６", 401, "bad_timestamp"),  # noqa: RUF001 - full-width digits
        (0, " {}", 401, "mismatch"),  # HTTP takes the blank away, but it was signed
    ],
)
def test_a1_13_only_plain_seconds_within_the_window_count(
    offset: int, shape: str, status: int, reason: str
) -> None:
    text = shape.format(NOW + offset)
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": text.encode().decode("latin-1"),
        "webhook-signature": sign_v1("msg_1", text, BODY, decode_secret(SECRET)),
    }

    with served(now=lambda: NOW) as site:
        assert post(site, headers, path=PATH) == status
    assert not reason or site.failures(reason) == 1


def test_the_window_is_a_setting() -> None:
    with served(env={"GEMHOOKS_TOLERANCE": "30"}) as site:
        at = int(time.time()) - 60
        assert post(site, signed(BODY, at=at), path=PATH) == 401


def test_a1_14_a_copy_inside_the_window_is_accepted_so_that_gemini_stops(site: Site) -> None:
    whole = request(headers=signed(BODY))
    with ThreadPoolExecutor(20) as pool:
        statuses = set(pool.map(site.status, [whole] * 20))

    assert statuses == {204}
    assert {each.id for each in site.publisher.messages} == {"msg_1"}


# -- A1-16: nothing in the token chooses how it is checked


def forged(evil: str) -> list[str]:
    claims = {"aud": AUDIENCE, "exp": time.time() + 60}
    curve = ec.generate_private_key(ec.SECP256R1())
    kid = {"kid": "r1"}
    return [
        jwt.encode(claims, "", algorithm="none", headers=kid),
        jwt.encode(claims, R1, algorithm="RS512", headers=kid),
        jwt.encode(claims, R1, algorithm="PS256", headers=kid),
        jwt.encode(claims, curve, algorithm="ES256", headers=kid),
        jwt.encode(claims, R2, algorithm="RS256", headers={**kid, "jku": evil}),
        jwt.encode(claims, R2, algorithm="RS256", headers={**kid, "x5u": evil}),
        jwt.encode(claims, R1, algorithm="RS256", headers={**kid, "jwk": rsa_jwk("r1")}),
        jwt.encode(claims, R1, algorithm="RS256", headers={**kid, "crit": ["x"], "x": 1}),
        jwt.encode(claims, R1, algorithm="RS256", headers={"kid": "x" * 100_000}),
    ]


def test_a1_16_no_forged_token_passes_or_makes_us_fetch(site: Site, jwks: Website) -> None:
    post(site, token())
    with Website() as evil:
        statuses = [post(site, dynamic(each)) for each in forged(evil.url)]

    assert set(statuses) <= {401, 431}
    assert (evil.hits, jwks.hits) == (0, 1)
    assert len(site.publisher.messages) == 1


# -- A1-18, A1-19: the published keys, when they can't be had or are odd


class Clock:
    """Time that passes when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b""), (200, b"<html>"), (200, b"[]"), (200, b'{"keys":[]}')],
)
def test_a1_18_known_keys_outlive_their_server_for_a_day(
    jwks: Website, status: int, body: bytes
) -> None:
    clock, good = Clock(), jwks.body
    published = JwksCache(jwks.url, clock=clock, max_wait=60)
    keys = KeyRing(SigningSecrets(SECRET), jwks=published)
    with served(env=settings(jwks), keys=keys) as site:
        assert post(site, token()) == 204
        jwks.status, jwks.body = status, body
        clock.now += 2 * HOUR
        assert post(site, token()) == 204
        clock.now += 24 * HOUR
        with capture_logs() as lines:
            assert post(site, token()) == 503
        assert post(site, signed(BODY), path=PATH) == 204
        jwks.status, jwks.body = 200, good
        clock.now += 60
        assert post(site, token()) == 204

    found = [line for line in lines if line["event"] == "webhook_received"]
    assert [(each["outcome"], each["reason"]) for each in found] == [
        ("keys_unavailable", "jwks_unavailable")
    ]


def test_a1_18_a_start_during_an_outage_answers_503_within_the_bound(jwks: Website) -> None:
    jwks.open.clear()
    env = {**settings(jwks), "GEMHOOKS_JWKS_WAIT": "0.2"}
    with served(env=env) as site:
        answers = [post(site, each) for each in (token(), v1a(), token())]
        health = site.status(request(method="GET", path="/readyz", headers={}))
        static = post(site, signed(BODY), path=PATH)
        jwks.open.set()

        wait_until(lambda: post(site, token()) == 204, "the keys arrive")

    assert (answers, health, static) == ([503] * 3, 200, 204)


def test_while_published_keys_come_others_are_answered_and_then_the_one_that_waits(
    jwks: Website,
) -> None:
    jwks.open.clear()
    with served(env={**settings(jwks), "GEMHOOKS_JWKS_WAIT": "60"}) as site:
        adapter = site.server.connections.adapter
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(post, site, v1a())
            wait_until(lambda: len(adapter) == 1, "one waits for the keys")
            assert post(site, signed(BODY), path=PATH) == 204
            jwks.open.set()
            assert waiting.result() == 204

    assert [message.scheme for message in site.publisher.messages] == ["v1", "v1a"]
    assert {message.body for message in site.publisher.messages} == {BODY}
    assert site.total() == 2


class Watched(MemoryPublisher):
    """Knows which threads publish."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[str] = set()

    def publish(self, message: Message, *, exchange: str = topology.EVENTS) -> Future[None]:
        self.threads.add(threading.current_thread().name)
        return super().publish(message, exchange=exchange)


def test_a_webhook_whose_keys_are_there_is_checked_without_a_thread(jwks: Website) -> None:
    publisher = Watched()
    with served(publisher, env=settings(jwks)) as site:
        wait_until(lambda: len(key_samples(site)) == 5, "all keys are there")
        assert [post(site, each) for each in (signed(BODY), v1a(), token())] == [204] * 3

    assert publisher.threads == {"site"}


def test_a_flood_of_unknown_keys_costs_one_fetch_and_holds_up_nobody(
    site: Site, jwks: Website
) -> None:
    assert post(site, token()) == 204
    flood = [token(R2, f"k{n}") for n in range(200)]
    with ThreadPoolExecutor(16) as pool:
        statuses = set(pool.map(lambda headers: post(site, headers), flood))
        assert post(site, signed(BODY), path=PATH) == 204

    assert statuses == {401}
    assert jwks.hits == 1
    assert site.failures("unknown_key") == 200


ODD: Sequence[object] = (
    {"kty": "AKP", "kid": "pq"},
    ed25519_jwk(ED25519[0]),
    {"kty": "RSA"},
    None,
    rsa_jwk("r1-enc", use="enc"),
)


def test_a1_19_odd_members_of_the_set_spoil_no_other_key(jwks: Website) -> None:
    jwks.body = document(*ODD, rsa_jwk("r1"))
    with served(env=settings(jwks)) as site:
        assert [post(site, token()), post(site, token(kid=None))] == [204, 204]
    jwks.body = document(*ODD, rsa_jwk("r1"), rsa_jwk("r2", R2))
    with served(env=settings(jwks)) as site:
        assert [post(site, token()), post(site, token(kid=None))] == [204, 401]


# -- A1-09: without a usable key nothing starts


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"GEMINI_WEBHOOK_SECRET": ""}, "No webhook secret"),
        ({"GEMINI_WEBHOOK_SECRET": "whsec_"}, "is empty"),
        ({"GEMINI_WEBHOOK_SECRET": "whsec_===="}, "is empty"),
        ({"GEMINI_WEBHOOK_SECRET": f"{SECRET} whsec_"}, "number 2 of 2.*is empty"),
        ({"GEMINI_WEBHOOK_SECRET": "whsec_changeme"}, "placeholder"),
        ({"GEMINI_WEBHOOK_SECRET": "whsec_...cOp4"}, "shortened"),
        ({"GEMINI_WEBHOOK_SECRET": SECRET + "A"}, "not complete base64"),
        ({"GEMHOOKS_SCHEMES": "v2"}, "GEMHOOKS_SCHEMES"),
        ({"GEMHOOKS_SCHEMES": ","}, "GEMHOOKS_SCHEMES"),
        ({"GEMHOOKS_SCHEMES": "v1a"}, "GEMHOOKS_PATH_TOKENS"),
        ({"GEMHOOKS_SCHEMES": "v1a", "GEMHOOKS_PATH_TOKENS": "short"}, "8 characters"),
        ({"GEMHOOKS_SCHEMES": "jwt", "GEMHOOKS_PATH_TOKENS": TOKEN}, "GEMHOOKS_JWT_AUDIENCE"),
        (
            {
                "GEMHOOKS_SCHEMES": "v1a",
                "GEMHOOKS_PATH_TOKENS": TOKEN,
                "GEMHOOKS_JWKS_URL": "file:///etc/passwd",
            },
            "GEMHOOKS_JWKS_URL",
        ),
    ],
)
def test_a1_09_without_a_usable_key_it_refuses_to_start_in_one_sentence(
    env: dict[str, str], words: str
) -> None:
    with pytest.raises(Misconfigured, match=words) as caught:
        key_ring(Settings.from_env({"GEMINI_WEBHOOK_SECRET": SECRET, **env}))

    assert "\n" not in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_a1_09_an_empty_folder_of_secrets_is_refused_too(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="No webhook secret"):
        key_ring(Settings.from_env({"GEMINI_WEBHOOK_SECRET_FILE": str(tmp_path)}))


# -- A1-22, A1-23: what an operator sees, and what a stranger doesn't


def test_a1_22_a_wrong_secret_is_counted_apart_and_mended_without_a_restart(
    tmp_path: Path,
) -> None:
    file = tmp_path / "secret"
    file.write_text("whsec_" + base64.b64encode(b"another secret of 32 bytes here!").decode())
    with served(env={"GEMINI_WEBHOOK_SECRET_FILE": str(file)}) as site:
        refused = {post(site, signed(BODY, f"msg_{n}"), path=PATH) for n in range(50)}
        file.write_text(SECRET + "\n")
        wait_until(lambda: post(site, signed(BODY), path=PATH) == 204, "the new secret counts")

    assert refused == {401}
    assert site.failures("mismatch") >= 50
    assert site.failures("too_old") == 0


def test_a_secret_is_changed_under_load_without_a_single_refusal(tmp_path: Path) -> None:
    new = "whsec_" + base64.b64encode(b"the new secret, of 32 bytes too!").decode()
    file, signing = tmp_path / "secret", [SECRET]
    statuses, is_over = list[int](), threading.Event()
    file.write_text(SECRET)

    def send(site: Site) -> None:
        while not is_over.is_set():
            statuses.append(post(site, signed(BODY, secret=signing[0]), path=PATH))

    def replace_by(text: str) -> None:
        (tmp_path / "next").write_text(text)
        (tmp_path / "next").rename(file)

    with served(env={"GEMINI_WEBHOOK_SECRET_FILE": str(file)}) as under:
        sender = threading.Thread(target=send, args=(under,))
        sender.start()
        replace_by(f"{SECRET}\n{new}\n")
        wait_until(lambda: len(key_samples(under)) == 2, "both count")
        signing[0] = new
        count = len(statuses)
        wait_until(lambda: len(statuses) > count + 1, "what was signed before has arrived")
        replace_by(new)
        wait_until(lambda: len(key_samples(under)) == 1, "one counts")
        is_over.set()
        sender.join()
        retired = post(under, signed(BODY), path=PATH)

    assert set(statuses) == {204}
    assert retired == 401


def test_keys_are_renewed_though_nobody_sends_a_webhook(jwks: Website, tmp_path: Path) -> None:
    file, clock = tmp_path / "secret", Clock()
    file.write_text(SECRET)
    published = JwksCache(jwks.url, clock=clock)
    keys = KeyRing(SigningSecrets(path=file), jwks=published)
    with capture_logs() as lines, served(keys=keys):
        wait_until(lambda: published.age() == 0, "the published keys are fetched")
        clock.now += HOUR
        file.write_text(f"{SECRET} {base64.b64encode(bytes(range(32))).decode()}")
        wait_until(lambda: jwks.hits == 2, "they are fetched again")
        wait_until(lambda: lines, "the secrets are read again")

    assert [(line["event"], len(line["keys"])) for line in lines] == [
        ("webhook_secrets_reloaded", 2)
    ]


def key_samples(site: Site) -> list[str]:
    """The fingerprints of the keys in use, as the metrics tell them."""
    return [
        sample.labels["key"]
        for metric in site.registry.collect()
        for sample in metric.samples
        if sample.name == "gemhooks_webhook_key_info"
    ]


def test_a1_23_all_refusals_look_the_same_and_the_log_says_why(site: Site) -> None:
    old = int(time.time()) - 1000
    refused = [
        {},
        signed(BODY, at=old),
        {**signed(BODY), "webhook-signature": "v1,AAAA"},
        {**signed(BODY), "webhook-signature": "v1,!!!"},
        {**signed(BODY), "webhook-signature": "v9,AAAA"},
        signed(BODY + b"x"),
    ]
    more = {"X-Request-Id": "req-7", "Connection": "close"}
    with capture_logs() as lines:
        answers = [site.exchange(request(headers=each, more=more)) for each in refused]

    assert len({answer.partition(b"date:")[0] for answer in answers}) == 1
    assert len({answer.partition(b"GMT")[2] for answer in answers}) == 1
    assert [line["reason"] for line in lines] == [
        "missing_header",
        "too_old",
        "mismatch",
        "malformed",
        "unsupported_scheme",
        "mismatch",
    ]
    assert {line["request_id"] for line in lines} == {"req-7"}


def test_a_request_id_that_is_no_id_is_not_logged(site: Site) -> None:
    with capture_logs() as lines:
        site.status(request(more={"X-Request-Id": 'x"} {"level":"error"'}))

    assert lines[0]["request_id"] == ""


# -- metrics


def test_the_keys_in_use_and_the_age_of_the_published_ones_are_in_the_metrics(site: Site) -> None:
    for each in (signed(BODY), v1a(), token()):
        post(site, each)
    samples = [
        (sample.name, sample.labels)
        for metric in site.registry.collect()
        for sample in metric.samples
        if "key" in sample.labels or sample.name == "gemhooks_jwks_age_seconds"
    ]
    loaded = [labels["scheme"] for name, labels in samples if name == "gemhooks_webhook_key_info"]
    used = [each["scheme"] for n, each in samples if n == "gemhooks_webhook_verified_total"]

    assert sorted(loaded) == ["jwt", "v1", "v1a", "v1a", "v1a"]
    assert sorted(used) == ["jwt", "v1", "v1a"]
    assert ("gemhooks_jwks_age_seconds", {}) in samples
    assert SECRET[6:] not in str(samples)


def test_nothing_a_stranger_sends_makes_a_series_of_its_own(site: Site) -> None:
    for n in range(50):
        body = b'{"type": "made.up.%d"}' % n
        post(site, signed(body), path=PATH, body=body)
        site.status(request(headers={"webhook-signature": f"v{n},AAAA"}, path=f"/{n}"))
        site.status(request(method=["GET", "PUT", "TRACE"][n % 3], headers={}, path=PATH))

    found = {
        tuple(sorted(sample.labels.items()))
        for metric in site.registry.collect()
        for sample in metric.samples
        if sample.name == "gemhooks_webhook_requests_total"
    }

    assert found == {
        (("event_type", "other"), ("outcome", "published"), ("scheme", "v1")),
        (("event_type", "other"), ("outcome", "not_found"), ("scheme", "none")),
        (("event_type", "other"), ("outcome", "method_not_allowed"), ("scheme", "none")),
    }
    assert site.total() == 150
