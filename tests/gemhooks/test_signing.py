"""The rules of signatures, checked against standardwebhooks, PyJWT and a few lines of hmac."""

import base64
import hashlib
import hmac
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import example, given
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm
from standardwebhooks import Webhook as Standard

from gemhooks.errors import InvalidSignature, KeysUnavailable, Misconfigured
from gemhooks.keys import PublishedKeys
from gemhooks.signing import (
    Ed25519Key,
    JwtRules,
    Reason,
    RsaKey,
    Scheme,
    Secret,
    Trust,
    Webhook,
    decode_secret,
    fingerprint,
    sign_jwt,
    sign_v1,
    sign_v1a,
    verify,
)

NOW = 1_790_000_000
OLD, NEW, UNKNOWN = (bytes([n]) * 16 + b"0123456789abcdef" for n in (1, 2, 3))
BODY = b'{"type":"interaction.completed","data":{"id":"int_1"}}'
ED25519 = [Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in range(4)]
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
ALL = (Scheme.V1, Scheme.V1A, Scheme.JWT)
RULES = JwtRules(audience=("https://example.com/hook", "project"), issuer=None)
CLAIMS = {"aud": "project", "iat": NOW, "exp": NOW + 300}


@dataclass(frozen=True)
class FixedKeys:
    """Keys that never change: those given, and three published ones of each kind."""

    secrets: Sequence[Secret] = (Secret(NEW, "new"), Secret(OLD, "old"))
    rsa: Mapping[str, RsaKey] | None = None

    def ed25519_keys(self) -> list[Ed25519Key]:
        """Return the first three keys: the fourth is not published."""
        return [Ed25519Key(key.public_key(), f"ed{n}") for n, key in enumerate(ED25519[:3])]

    def rsa_keys(self, kid: str | None) -> Sequence[RsaKey]:
        """Return r1 under its name."""
        keys = {"r1": RsaKey(RSA.public_key(), "r1")} if self.rsa is None else self.rsa
        return PublishedKeys((), tuple(keys.items()), ()).with_kid(kid)


def check(
    signature: str,
    body: bytes = BODY,
    *,
    webhook_id: str = "msg_1",
    timestamp: str = str(NOW),
    keys: FixedKeys = FixedKeys(),
    schemes: Sequence[Scheme] = ALL,
    rules: JwtRules = RULES,
) -> Webhook:
    """Verify a request of the usual shape."""
    headers = {
        "webhook-id": webhook_id.encode().decode("latin-1"),
        "webhook-timestamp": timestamp,
        "webhook-signature": signature,
    }
    return verify(headers, body, keys, now=NOW, schemes=schemes, jwt_rules=rules)


def reason_of(signature: str, body: bytes = BODY, **request: Any) -> str:
    """Return why a request is refused."""
    with pytest.raises(InvalidSignature) as caught:
        check(signature, body, **request)
    assert caught.value.reason in set(Reason)
    return caught.value.reason


def v1(secret: bytes, body: bytes = BODY, webhook_id: str = "msg_1", ts: str = str(NOW)) -> str:
    """Sign with nothing but hmac."""
    mac = hmac.new(secret, f"{webhook_id}.{ts}.".encode() + body, hashlib.sha256)
    return "v1," + base64.b64encode(mac.digest()).decode()


def token(claims: Mapping[str, Any] = CLAIMS, **changes: Any) -> str:
    """Return a token by r1."""
    return sign_jwt({**claims, **changes}, RSA, kid="r1")


class TestV1:
    """HMAC-SHA256 with a shared secret."""

    def test_a_signature_of_the_reference_implementation_verifies(self) -> None:
        at = datetime.fromtimestamp(NOW, UTC)
        signature = Standard(base64.b64encode(OLD).decode()).sign("msg_1", at, BODY.decode())
        assert check(signature) == Webhook("msg_1", NOW, BODY, Scheme.V1, Trust.BODY, "old")

    def test_our_signature_is_the_one_of_plain_hmac(self) -> None:
        assert sign_v1("msg_1", NOW, BODY, NEW) == v1(NEW)

    @pytest.mark.parametrize(
        "signature",
        [
            f"{v1(OLD)} {v1(NEW)}",
            f"{v1(NEW)} {v1(OLD)}",
            f"v1a,AAAA v2,zzzz {v1(UNKNOWN)} {v1(NEW)}",
            v1(OLD),
            f"{v1(UNKNOWN)},{v1(NEW)}",  # two lines, joined on the way, without the usual space
            f"{v1(NEW)}, {v1(UNKNOWN)},v2,zzzz",
            f"v2,zzzz,v1a,AAAA,{v1(UNKNOWN)},{v1(NEW)}",
        ],
    )
    def test_a1_02_any_valid_entry_by_any_secret_is_enough(self, signature: str) -> None:
        assert check(signature, schemes=[Scheme.V1]).scheme is Scheme.V1

    def test_a_signature_that_begins_like_a_version_is_one(self) -> None:
        entries = ((name, v1(OLD, webhook_id=name)) for name in map("msg_{}".format, count()))
        name, entry = next(each for each in entries if each[1].startswith("v1,v1"))

        for signature in (entry, f"{v1(UNKNOWN)},{entry}", f"{entry},{v1(UNKNOWN)}"):
            assert check(signature, webhook_id=name).key == "old"

    def test_a1_02_an_unknown_or_retired_secret_is_refused(self) -> None:
        assert reason_of(v1(UNKNOWN)) == "mismatch"
        assert reason_of(v1(OLD), keys=FixedKeys(secrets=[Secret(NEW, "new")])) == "mismatch"

    @pytest.mark.parametrize("body", ["👩‍👩‍👧 🎉".encode(), b'{"id":"\xff\xfe"}', b"", b"\0"])
    def test_a1_04_the_signature_is_over_bytes_not_text(self, body: bytes) -> None:
        assert check(v1(NEW, body), body).body == body

    def test_a1_09_without_secrets_nothing_is_accepted(self) -> None:
        empty = FixedKeys(secrets=[])
        with pytest.raises(KeysUnavailable, match="no_secret"):
            check(v1(b""), keys=empty)
        assert reason_of("", keys=empty) == "missing_header"

    def test_a1_09_a_secret_can_not_be_empty(self) -> None:
        with pytest.raises(Misconfigured):
            Secret(b"", "empty")

    GARBAGE = (
        "v1",
        ",",
        "v1,",
        "v1,a",
        "v1,!!!",
        "junk",
        "v1,A,B",
        "v1,AAA=",
        "v1,AAB=",
        "v1,caf\xe9",
        "é.é.é",
        "☃",
        "v1,AA-_",
    )

    @pytest.mark.parametrize("garbage", GARBAGE)
    def test_a1_10_a_malformed_entry_is_refused(self, garbage: str) -> None:
        assert reason_of(garbage, schemes=[Scheme.V1]) in {
            "malformed",
            "mismatch",
            "unsupported_scheme",
        }

    @pytest.mark.parametrize("garbage", [*GARBAGE, "a.b.c", "eyJ.x.y", "", "v1,AAAA " * 31])
    def test_a1_10_a_valid_entry_after_garbage_counts(self, garbage: str) -> None:
        assert check(f"{garbage}  {v1(NEW)} ").key == "new"

    @pytest.mark.parametrize("signature", ["v1,AAAA " * 8192, "v1,AAAA " * 33, "v1," + "A" * 9000])
    def test_a1_10_an_endless_header_is_refused(self, signature: str) -> None:
        assert reason_of(signature + v1(NEW)) == "too_large"

    @pytest.mark.parametrize(
        "token_", ["a.b.c", "eyJ.x.y", "..", "\xe9.\xe9.\xe9", "W1tb" * 2000 + ".YQ.YQ"]
    )
    def test_a1_10_a_malformed_token_is_refused(self, token_: str) -> None:
        assert reason_of(token_) == "bad_token"
        assert reason_of(token_, schemes=[Scheme.V1]) == "unsupported_scheme"

    @pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
    def test_a1_10_every_header_is_needed(self, missing: str) -> None:
        headers = {
            "webhook-id": "msg_1",
            "webhook-timestamp": str(NOW),
            "webhook-signature": v1(NEW),
        }
        del headers[missing]
        for less in (headers, {**headers, missing: ""}):
            with pytest.raises(InvalidSignature, match="missing_header"):
                verify(less, BODY, FixedKeys(), now=NOW)

    def test_a1_12_an_id_that_is_no_text_is_refused(self) -> None:
        signed = b"msg_\xe9." + str(NOW).encode() + b"." + BODY
        mac = base64.b64encode(hmac.digest(NEW, signed, "sha256")).decode()
        headers = {
            "webhook-id": "msg_\xe9",
            "webhook-timestamp": str(NOW),
            "webhook-signature": "v1," + mac,
        }
        with pytest.raises(InvalidSignature, match="bad_id"):
            verify(headers, BODY, FixedKeys(), now=NOW)

    def test_a1_12_an_id_in_utf_8_is_the_bytes_that_were_sent(self) -> None:
        assert check(v1(NEW, webhook_id="msg_é☃"), webhook_id="msg_é☃").id == "msg_é☃"

    @pytest.mark.parametrize("webhook_id", ["a\nb", "a.1", "a.b.1.c", "a" * 4097, "\u200b"])
    def test_an_id_that_could_mislead_is_refused(self, webhook_id: str) -> None:
        signature = v1(NEW, webhook_id=webhook_id)
        assert reason_of(signature, webhook_id=webhook_id) in {"bad_id", "too_large"}

    def test_an_id_may_have_a_dot(self) -> None:
        assert check(v1(NEW, webhook_id="msg.x1"), webhook_id="msg.x1").id == "msg.x1"

    @pytest.mark.parametrize("age", [-300, -299, 0, 299, 300])
    def test_a1_13_up_to_five_minutes_either_way_are_accepted(self, age: int) -> None:
        assert check(v1(NEW, ts=str(NOW - age)), timestamp=str(NOW - age)).timestamp == NOW - age

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (f"{NOW - 301}", "too_old"),
            (f"{NOW + 301}", "too_new"),
            (f"{NOW * 1000}", "too_new"),
            (f"{NOW}.0", "bad_timestamp"),
            (f" {NOW}", "bad_timestamp"),
            ("1_790_000_000", "bad_timestamp"),
            (f"+{NOW}", "bad_timestamp"),
            ("-1", "bad_timestamp"),
            ("0x6ab1", "bad_timestamp"),
            ("1" * 400, "bad_timestamp"),
            ("１７９０００００００", "bad_timestamp"),  # noqa: RUF001 - full-width on purpose
            ("abc", "bad_timestamp"),
            ("NaN", "bad_timestamp"),
            ("1e400", "bad_timestamp"),
        ],
    )
    def test_a1_13_only_plain_recent_seconds_are_accepted(self, text: str, reason: str) -> None:
        assert reason_of(v1(NEW, ts=text), timestamp=text) == reason

    def test_a1_13_the_text_that_was_signed_is_the_text_that_is_checked(self) -> None:
        assert check(v1(NEW, ts=f"0{NOW}"), timestamp=f"0{NOW}").timestamp == NOW
        assert reason_of(v1(NEW, ts=str(NOW)), timestamp=f"0{NOW}") == "mismatch"


class TestV1a:
    """Ed25519 with a published key."""

    @pytest.mark.parametrize("key", [0, 1, 2])
    def test_a1_01_any_published_key_may_have_signed(self, key: int) -> None:
        signed = f"msg_1.{NOW}.".encode() + BODY
        signature = "v1a," + base64.b64encode(ED25519[key].sign(signed)).decode()
        assert sign_v1a("msg_1", NOW, BODY, ED25519[key]) == signature
        expected = Webhook("msg_1", NOW, BODY, Scheme.V1A, Trust.BODY, f"ed{key}")
        assert check(signature) == expected

    def test_a1_01_another_body_or_key_is_refused(self) -> None:
        assert reason_of(sign_v1a("msg_1", NOW, BODY, ED25519[0]), BODY + b" ") == "mismatch"
        assert reason_of(sign_v1a("msg_1", NOW, BODY, ED25519[3])) == "mismatch"

    def test_a1_01_where_it_is_not_allowed_the_reason_says_so(self) -> None:
        signature = sign_v1a("msg_1", NOW, BODY, ED25519[0])
        assert reason_of(signature, schemes=[Scheme.V1]) == "unsupported_scheme"

    def test_a_v1_entry_that_fails_does_not_hide_a_v1a_entry(self) -> None:
        both = f"{v1(UNKNOWN)} {sign_v1a('msg_1', NOW, BODY, ED25519[1])}"
        assert check(both).scheme is Scheme.V1A


def raw_token(header: Mapping[str, Any], key: rsa.RSAPrivateKey = RSA) -> str:
    """Sign any header, also one that a library would not write."""
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - for this alone
    from cryptography.hazmat.primitives.asymmetric import padding  # noqa: PLC0415

    def b64url(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    signed = b64url(json.dumps(header).encode()) + "." + b64url(json.dumps(CLAIMS).encode())
    signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{signed}.{b64url(signature)}"


def hs256(secret: bytes) -> str:
    """Sign with a public key as if it were a secret, which PyJWT refuses to do."""
    head, payload = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in ({"alg": "HS256", "kid": "r1"}, CLAIMS)
    )
    mac = hmac.digest(secret, head + b"." + payload, "sha256")
    return b".".join([head, payload, base64.urlsafe_b64encode(mac).rstrip(b"=")]).decode()


class TestJwt:
    """RS256 tokens."""

    def test_a_token_is_a_hint_unless_it_binds_the_body(self) -> None:
        assert check(token()) == Webhook("msg_1", NOW, BODY, Scheme.JWT, Trust.HINT, "r1")
        digest = hashlib.sha256(BODY)
        text = base64.b64encode(digest.digest()).decode()
        for written in (digest.hexdigest(), text, f"sha256-{text}", f"SHA-256=:{text}:"):
            for name in ("body_sha256", "bodyHash", "content-digest", "sha256"):
                assert check(token({**CLAIMS, name: written})).trust is Trust.BODY

    def test_bearer_before_the_token_is_allowed(self) -> None:
        assert check(f"Bearer {token()}").scheme is Scheme.JWT

    def test_without_an_audience_every_token_is_refused(self) -> None:
        assert reason_of(token(), rules=JwtRules()) == "no_audience"

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"aud": "another"}, "bad_audience"),
            ({"aud": 5}, "bad_audience"),
            ({"exp": NOW - 301}, "too_old"),
            ({"nbf": NOW + 301}, "too_new"),
            ({"iat": NOW + 301}, "too_new"),
            ({"exp": "soon"}, "bad_token"),
            ({"exp": True}, "bad_token"),
            ({"exp": float("nan")}, "bad_token"),
            ({"type": "batch.failed"}, "claims_mismatch"),
            ({"data": {"id": "int_2"}}, "claims_mismatch"),
            ({"event_type": "batch.failed"}, "claims_mismatch"),
            ({"data": {"name": "interactions/int_2"}}, "claims_mismatch"),
            ({"data": {"interaction": {"id": "int_2"}}}, "claims_mismatch"),
            ({"interaction": {"id": "int_2"}}, "claims_mismatch"),
            ({"event": {"data": {"id": "int_2"}}}, "claims_mismatch"),
            ({"payload": {"type": "batch.failed"}}, "claims_mismatch"),
            ({"digest": "sha-256=:AA==:"}, "claims_mismatch"),
            ({"requestBodySha256": "00"}, "claims_mismatch"),
            ({"body_sha256": hashlib.sha256(b"").hexdigest()}, "claims_mismatch"),
            ({"body_sha256": None}, "claims_mismatch"),
        ],
    )
    def test_claims_that_do_not_fit_are_refused(
        self, changes: Mapping[str, Any], reason: str
    ) -> None:
        assert reason_of(token(**changes)) == reason

    def test_claims_that_name_the_event_of_the_body_are_accepted(self) -> None:
        named = token(type="interaction.completed", data={"id": "int_1"})
        assert check(named).trust is Trust.HINT
        named = token(event={"event_type": "interaction.completed", "data": {"name": "int_1"}})
        body = b'\xef\xbb\xbf{"event_type":"interaction.completed","interaction":{"id":"int_1"}}'
        assert check(named, body).trust is Trust.HINT

    @pytest.mark.parametrize("body", [b"\xff", b"[]", b"", b"[" * 100_000, b'{"data":1}'])
    def test_a_body_that_names_no_event_does_not_fit_one_that_is_named(self, body: bytes) -> None:
        assert reason_of(token(data={"id": "int_1"}), body) == "claims_mismatch"

    def test_the_issuer_is_checked_if_one_is_configured(self) -> None:
        rules = JwtRules(audience=("project",), issuer="accounts.google.com")
        assert check(token(iss="accounts.google.com"), rules=rules).key == "r1"
        assert reason_of(token(iss="evil"), rules=rules) == "bad_issuer"
        assert reason_of(token(), rules=rules) == "bad_issuer"

    def test_without_an_expiry_a_token_ages_like_a_webhook(self) -> None:
        claims = {"aud": "project", "iat": NOW - 301}
        assert reason_of(token(claims)) == "too_old"

    def test_a_token_that_says_nothing_of_time_is_refused_whatever_its_headers_say(self) -> None:
        assert reason_of(token({"aud": "project"})) == "bad_token"

    def test_the_id_and_time_may_come_from_the_claims(self) -> None:
        headers = {"webhook-signature": token(jti="jti_é")}
        webhook = verify(headers, BODY, FixedKeys(), now=NOW, schemes=[Scheme.JWT], jwt_rules=RULES)
        assert (webhook.id, webhook.timestamp) == ("jti_é", NOW)

    @pytest.mark.parametrize("jti", [None, 5, "", "\ud800", "a\nb", "a" * 4097])
    def test_a_token_without_a_usable_id_is_refused(self, jti: object) -> None:
        headers = {"webhook-signature": token(jti=jti) if jti is not None else token()}
        with pytest.raises(InvalidSignature):
            verify(headers, BODY, FixedKeys(), now=NOW, schemes=[Scheme.JWT], jwt_rules=RULES)

    def test_a1_16_the_token_does_not_choose_its_algorithm(self) -> None:
        public = RSA.public_key()
        pem, der = (
            public.public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
            for encoding in (serialization.Encoding.PEM, serialization.Encoding.DER)
        )
        jwk = RSAAlgorithm.to_jwk(public).encode()
        curve = ec.generate_private_key(ec.SECP256R1())
        forged = [
            jwt.encode(CLAIMS, "", algorithm="none", headers={"kid": "r1"}),
            *(hs256(key) for key in (pem, der, jwk)),
            *(
                jwt.encode(CLAIMS, key, algorithm=alg, headers={"kid": "r1"})
                for key, alg in ((RSA, "RS512"), (RSA, "PS256"), (curve, "ES256"))
            ),
            jwt.encode(CLAIMS, ED25519[0], algorithm="EdDSA", headers={"kid": "r1"}),
        ]
        unsigned, *signed = (reason_of(one) for one in forged)
        assert unsigned == "bad_token"
        assert set(signed) == {"bad_algorithm"}

    @pytest.mark.parametrize(
        "extra",
        [
            {"jku": "https://evil.example"},
            {"x5u": "https://evil.example"},
            {"jwk": {}},
            {"x5c": []},
            {"crit": ["x"], "x": 1},
            {"crit": []},
            {"b64": False},
            {"kid": ["r1"]},
            {"kid": None},
            {"kid": 1},
        ],
    )
    def test_a1_16_the_token_does_not_bring_its_key(self, extra: Mapping[str, Any]) -> None:
        header = {"alg": "RS256", "kid": "r1"}
        assert check(raw_token(header)).key == "r1"
        assert reason_of(raw_token({**header, **extra})) == "bad_token"

    def test_a1_16_a_huge_kid_is_refused_unread(self) -> None:
        assert reason_of(raw_token({"alg": "RS256", "kid": "x" * 1_000_000})) == "too_large"

    def test_a1_16_another_key_or_an_unknown_kid_is_refused(self) -> None:
        assert reason_of(sign_jwt(CLAIMS, OTHER_RSA, kid="r1")) == "mismatch"
        assert reason_of(sign_jwt(CLAIMS, RSA, kid="r2")) == "unknown_key"

    def test_a1_19_without_a_kid_only_a_single_key_will_do(self) -> None:
        unnamed = sign_jwt(CLAIMS, RSA)
        assert check(unnamed).key == "r1"
        two = {name: RsaKey(RSA.public_key(), name) for name in ("r1", "r2")}
        assert reason_of(unnamed, keys=FixedKeys(rsa=two)) == "unknown_key"


# A list of characters, since the tables of Hypothesis take seconds to build the first time.
PRINTABLE = [chr(n) for n in (*range(0x3000), 0x1F600) if chr(n).isprintable()]
ids = st.text(st.sampled_from(PRINTABLE), min_size=1, max_size=60).filter(
    lambda text: not any(part.isdecimal() for part in text.split(".")[1:])
)
UNCHECKED: Any = {"verify_exp": False, "verify_aud": False, "verify_iat": False}
bodies = st.binary(max_size=200)
times = st.integers(NOW - 300, NOW + 300).map(str)


@given(ids, times, bodies, st.sampled_from([OLD, NEW]))
def test_whatever_is_signed_verifies(webhook_id: str, at: str, body: bytes, key: bytes) -> None:
    signature = sign_v1(webhook_id, at, body, key)
    webhook = check(signature, body, webhook_id=webhook_id, timestamp=at)
    assert (webhook.id, webhook.timestamp, webhook.body) == (webhook_id, int(at), body)
    signature = sign_v1a(webhook_id, at, body, ED25519[2])
    assert check(signature, body, webhook_id=webhook_id, timestamp=at).key == "ed2"


def signed_by(scheme: Scheme) -> bytes:
    """Return the usual request's signature header."""
    made = {Scheme.V1: v1(NEW), Scheme.V1A: sign_v1a("msg_1", NOW, BODY, ED25519[0])}
    return made.get(scheme, token(body_sha256=hashlib.sha256(BODY).hexdigest())).encode()


SIGNED = {scheme: signed_by(scheme) for scheme in ALL}


@given(st.sampled_from(ALL), st.sampled_from(range(4)), st.data())
def test_any_changed_byte_is_refused(scheme: Scheme, part: int, data: st.DataObject) -> None:
    request = [b"msg_1", str(NOW).encode(), SIGNED[scheme], BODY]
    where = data.draw(st.integers(0, len(request[part]) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda one: one != request[part][where]))
    if scheme is Scheme.JWT and part < 2:
        return  # a token does not sign these
    request[part] = request[part][:where] + bytes([byte]) + request[part][where + 1 :]
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    headers = {
        name: value.decode("latin-1") for name, value in zip(names, request[:3], strict=True)
    }
    with pytest.raises(InvalidSignature):
        verify(headers, request[3], FixedKeys(), now=NOW, schemes=ALL, jwt_rules=RULES)


@given(ids, times, bodies, st.integers(1, 100))
def test_bytes_moved_between_the_parts_are_refused(
    webhook_id: str, at: str, body: bytes, cut: int
) -> None:
    shifted = f"{at}.".encode() + body
    signature = sign_v1(webhook_id, at, shifted, NEW)
    moved = f"{webhook_id}.{at}"
    assert reason_of(signature, body, webhook_id=moved, timestamp=at) in {"bad_id", "too_large"}
    assert reason_of(signature, shifted[cut:], webhook_id=webhook_id, timestamp=at) == "mismatch"


garbage = st.binary(max_size=60).map(lambda sent: sent.decode("latin-1")) | st.lists(
    st.sampled_from(["v1", "v1a", ",", ".", " ", "=", "AAAA", "eyJhbGciOiJSUzI1NiJ9", "\xe9"])
).map("".join)


@given(
    st.dictionaries(
        st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]),
        garbage | st.just(str(NOW)),
    ),
    bodies,
)
@example({"webhook-id": "☃", "webhook-timestamp": str(NOW), "webhook-signature": v1(NEW)}, BODY)
def test_no_header_raises_anything_else(headers: Mapping[str, str], body: bytes) -> None:
    with pytest.raises(InvalidSignature) as caught:
        verify(headers, body, FixedKeys(), now=NOW, schemes=ALL, jwt_rules=RULES)
    assert caught.value.reason in set(Reason)


class TestSecrets:
    """The text of a secret."""

    @given(st.binary(min_size=16, max_size=64).filter(lambda key: len(set(key)) > 4))
    def test_prefix_and_padding_are_optional(self, key: bytes) -> None:
        text = base64.b64encode(key).decode()
        if "changeme" in text.lower():
            return
        for written in (text, text.rstrip("="), f"whsec_{text}", f" whsec_{text.rstrip('=')}\n"):
            assert decode_secret(written) == key

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "whsec_",
            "whsec_====",
            "whsec_...",
            "whsec_...Ab12",
            "changeme",
            "changemechangemechangeme",
            "whsec_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            "whsec_replacemereplacemereplacemereplaceme",
            "whsec_yourwebhooksecretgoeshere00",
            "whsec_Y2hhbmdlLW1lLWNoYW5nZS1tZS1jaGFuZ2UtbWU=",  # change-me-change-me-change-me
            "Y2hhbmdlLW1lLWNoYW5nZS1tZS1jaGFuZ2UtbWU",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa_-",
            "whsec_MfKQ9r8GKYqrTwjU PD8ILPZIo2LaLaSw",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw=",
            "whsec_whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_AAECAwQFBgcICQoLDA0O",
            "'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'",
            "pässwörtpässwörtpässwört",
        ],
    )
    def test_a1_09_what_would_not_decode_to_what_was_meant_is_refused(self, text: str) -> None:
        with pytest.raises(Misconfigured) as caught:
            decode_secret(text)
        sentence = str(caught.value)
        assert sentence.endswith(".")
        assert "\n" not in sentence
        assert len(text) < 10 or text[6:] not in sentence

    def test_no_repr_shows_a_key(self) -> None:
        secret = Secret(b"very secret indeed", fingerprint(b"very secret indeed"))
        assert "very" not in repr(secret)
        assert secret.fingerprint in repr(secret)


def test_a_receiver_of_v1_loads_no_library_for_the_others() -> None:
    code = "import sys, gemhooks.signing; print({'jwt', 'cryptography'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "set()\n"


names = st.sampled_from(["me", "you", "them", ""])
said = (
    st.none() | st.booleans() | st.integers(0, 3) | names | st.lists(names | st.none(), max_size=3)
)
who = st.fixed_dictionaries(
    {"iat": st.integers(NOW - 60, NOW)}, optional=dict.fromkeys(("aud", "iss", "sub", "jti"), said)
)


@given(who, st.sampled_from([None, "them", ""]))
def test_a_token_is_for_us_where_pyjwt_says_so(claims: dict[str, Any], issuer: str | None) -> None:
    rules = JwtRules(audience=("me", "us"), issuer=issuer)
    signed = sign_jwt(claims, RSA, kid="r1")

    assert is_accepted(signed, rules) == is_accepted_by_pyjwt(signed, rules)


def is_accepted(signed: str, rules: JwtRules) -> bool:
    try:
        check(signed, rules=rules)
    except InvalidSignature:
        return False
    return True


def is_accepted_by_pyjwt(signed: str, rules: JwtRules) -> bool:
    key, audience = RSA.public_key(), rules.audience
    try:
        jwt.decode(
            signed,
            key,
            algorithms=["RS256"],
            audience=audience,
            issuer=rules.issuer,
            options={"verify_iat": False},  # its clock is not the test's
        )
    except jwt.InvalidTokenError:
        return False
    return True


def test_our_token_is_the_one_that_pyjwt_makes() -> None:
    theirs = jwt.encode(CLAIMS, RSA, algorithm="RS256", headers={"kid": "r1"})
    ours = sign_jwt(CLAIMS, RSA, kid="r1")

    assert jwt.get_unverified_header(ours) == jwt.get_unverified_header(theirs)
    assert ours.split(".")[1] == theirs.split(".")[1]
    assert jwt.decode(ours, RSA.public_key(), algorithms=["RS256"], options=UNCHECKED) == CLAIMS
