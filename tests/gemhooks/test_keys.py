"""The rules of keys: secrets that reload, and published keys from a real server on loopback."""

import base64
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import RSAAlgorithm
from structlog.testing import capture_logs

from gemhooks.errors import InvalidSignature, KeysUnavailable, Misconfigured
from gemhooks.keys import JwksCache, KeyRing, NoUsableKeys, SigningSecrets, fetch_jwks, parse_jwks
from gemhooks.signing import (
    JwtRules,
    Scheme,
    Webhook,
    decode_secret,
    sign_jwt,
    sign_v1,
    sign_v1a,
    verify,
)
from tests.services.website import Website

NOW = 1_790_000_000
BODY = b'{"type":"batch.succeeded","data":{"id":"b1"}}'
ONE = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TWO = "whsec_" + base64.b64encode(b"abcdefghijklmnopqrstuvwxyz012345").decode()
KEYS = [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)]
ED25519 = [Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in range(4)]
HOUR, DAY = 3600, 24 * 3600


@dataclass
class Clock:
    """Time that passes when a test says so."""

    now: float = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def keys_of(secrets: SigningSecrets) -> list[bytes]:
    """Return the bare keys."""
    return [secret.key for secret in secrets.secrets]


class Talker:
    """A server that says one thing again and again, slowly, until it is left."""

    def __init__(self, said: bytes) -> None:
        self._said, self.is_left = said, threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/jwks.json"
        self._thread = threading.Thread(target=self._talk)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._listener.close()

    def _talk(self) -> None:
        client, _ = self._listener.accept()
        with client, suppress(OSError):
            while True:
                client.sendall(self._said)
                time.sleep(0.01)
        self.is_left.set()


class TestSigningSecrets:
    """Secrets from text, a file or a folder."""

    @pytest.mark.parametrize("text", [f"{ONE} {TWO}", f"{ONE},{TWO}", f" {ONE}, {TWO},{ONE}\n"])
    def test_several_are_separated_by_spaces_or_commas(self, text: str) -> None:
        assert keys_of(SigningSecrets(text)) == [decode_secret(ONE), decode_secret(TWO)]

    @pytest.mark.parametrize("text", ["", " ", "whsec_", "whsec_====", f"{ONE} whsec_", "nonsense"])
    def test_a1_09_any_bad_secret_at_start_is_misconfigured(self, text: str) -> None:
        with pytest.raises(Misconfigured) as caught:
            SigningSecrets(text)
        assert str(caught.value).count(". ") == 0
        assert "GEMINI_WEBHOOK_SECRET" in str(caught.value)
        assert ONE not in str(caught.value)
        assert "nonsense" not in str(caught.value)

    def test_a_file_that_is_missing_or_no_text_is_misconfigured(self, tmp_path: Path) -> None:
        (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
        for name in ("missing", "binary"):
            with pytest.raises(Misconfigured):
                SigningSecrets(path=tmp_path / name)

    def test_a_folder_gives_all_its_files_but_hidden_ones_the_newest_first(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "b").write_text(TWO)
        os.utime(tmp_path / "b", (1, 1))
        (tmp_path / "a").write_text(ONE + "\n")
        os.utime(tmp_path / "a", (2, 2))
        (tmp_path / ".hidden").write_text("not a secret")
        (tmp_path / "folder").mkdir()
        assert keys_of(SigningSecrets(path=tmp_path)) == [decode_secret(ONE), decode_secret(TWO)]

    def test_a_changed_file_is_read_within_a_second_not_more_often(self, tmp_path: Path) -> None:
        clock, file = Clock(), tmp_path / "secret"
        file.write_text(ONE)
        secrets = SigningSecrets(path=file, clock=clock)
        file.write_text(f"{ONE} {TWO}")
        assert keys_of(secrets) == [decode_secret(ONE)]
        clock.now += 1
        assert keys_of(secrets) == [decode_secret(ONE), decode_secret(TWO)]

    def test_a_kubernetes_mount_is_swapped_as_a_whole(self, tmp_path: Path) -> None:
        clock = Clock()
        for version, secret in (("..v1", ONE), ("..v2", TWO)):
            (tmp_path / version).mkdir()
            (tmp_path / version / "secret").write_text(secret)
        (tmp_path / "..data").symlink_to("..v1")
        (tmp_path / "secret").symlink_to("..data/secret")
        secrets = SigningSecrets(path=tmp_path, clock=clock)
        assert keys_of(secrets) == [decode_secret(ONE)]
        (tmp_path / "..new").symlink_to("..v2")
        (tmp_path / "..new").replace(tmp_path / "..data")
        clock.now += 1
        assert keys_of(secrets) == [decode_secret(TWO)]

    @pytest.mark.parametrize("bad", ["", "changeme", f"{TWO} hunter2"])
    def test_a_bad_change_keeps_the_old_ones_and_is_reported_once(
        self, tmp_path: Path, bad: str
    ) -> None:
        clock, file, problems = Clock(), tmp_path / "secret", list[str]()
        file.write_text(ONE)
        secrets = SigningSecrets(path=file, clock=clock, on_bad_reload=problems.append)
        file.write_text(bad)
        for _ in range(3):
            clock.now += 1
            assert keys_of(secrets) == [decode_secret(ONE)]
        assert len(problems) == 1
        assert "hunter2" not in problems[0]
        file.write_text(f"{TWO}\n")
        clock.now += 1
        assert keys_of(secrets) == [decode_secret(TWO)]

    def test_a_removed_file_is_logged_and_keeps_the_old_ones(self, tmp_path: Path) -> None:
        clock, file = Clock(), tmp_path / "secret"
        file.write_text(ONE)
        secrets = SigningSecrets(path=file, clock=clock)
        file.unlink()
        clock.now += 1
        with capture_logs() as logs:
            assert keys_of(secrets) == [decode_secret(ONE)]
        assert [line["event"] for line in logs] == ["webhook_secrets_not_reloaded"]
        assert ONE[6:] not in str(logs)

    def test_a_file_that_could_not_be_read_is_read_again_though_it_looks_the_same(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock, file, problems = Clock(), tmp_path / "secret", list[str]()
        file.write_text(ONE)
        secrets = SigningSecrets(path=file, clock=clock, on_bad_reload=problems.append)
        file.write_text(f"{TWO}\n")
        with monkeypatch.context() as broken:
            broken.setattr(Path, "read_text", _denied)
            for _ in range(3):
                clock.now += 1
                assert keys_of(secrets) == [decode_secret(ONE)]
        clock.now += 1
        assert keys_of(secrets) == [decode_secret(TWO)]
        assert len(problems) == 1

    def test_no_repr_shows_a_secret(self) -> None:
        secrets = SigningSecrets(ONE)
        assert ONE[6:] not in repr(secrets) + repr(secrets.secrets)
        assert repr(decode_secret(ONE))[2:-1] not in repr(secrets.secrets)


def _denied(*_: object) -> str:
    raise PermissionError(13, "Permission denied")


def rsa_jwk(name: str, key: rsa.RSAPrivateKey = KEYS[0], **more: Any) -> dict[str, Any]:
    """Return a member as Google writes it."""
    member: dict[str, Any] = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    del member["key_ops"]
    return {**member, "kid": name, "use": "sig", "alg": "RS256", **more}


def ed25519_jwk(key: Ed25519PrivateKey) -> dict[str, Any]:
    """Return a member without a kid, as was reported."""
    x = base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).rstrip(b"=").decode()
    return {"kty": "OKP", "crv": "Ed25519", "x": x}


def document(*members: object) -> bytes:
    """Return a JWKS document."""
    return json.dumps({"keys": members}).encode()


@pytest.fixture
def site() -> Iterator[Website]:
    """Serve the published keys."""
    with Website() as site:
        yield site


def send(cache: JwksCache, signature: str, body: bytes = BODY) -> Webhook:
    """Verify a dynamic webhook."""
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(NOW),
        "webhook-signature": signature,
    }
    return verify(
        headers,
        body,
        KeyRing(jwks=cache),
        now=NOW,
        schemes=[Scheme.V1A, Scheme.JWT],
        jwt_rules=JwtRules(audience=("me",)),
    )


def token(key: rsa.RSAPrivateKey = KEYS[0], kid: str | None = "r1") -> str:
    """Return a token for us."""
    return sign_jwt({"aud": "me", "exp": NOW + 60}, key, kid=kid)


def finish(cache: JwksCache) -> None:
    """Wait for the attempt under way to end."""
    for thread in threading.enumerate():
        if thread.name == "jwks":
            thread.join(60)


class TestParsing:
    """One bad member does not spoil the others."""

    ODD: Sequence[object] = (
        {"kty": "AKP", "kid": "pq"},
        {"kty": "RSA"},
        None,
        rsa_jwk("r1-enc", use="enc"),
        rsa_jwk("r1-ops", key_ops=["encrypt"]),
        rsa_jwk("r1-ops", key_ops=5),
        rsa_jwk("r1-alg", alg="RSA-OAEP"),
        rsa_jwk("r1-n", n=5),
        rsa_jwk("r1-n", n="!!"),
        rsa_jwk("r1-n", n="AQAB"),
        rsa_jwk("r1-e", e="AA"),
        rsa_jwk("r1-1024-bits", n=base64.urlsafe_b64encode(b"\xff" * 129).decode()),
        {"kty": "OKP", "crv": "Ed25519", "x": "AA"},
        {"kty": "OKP", "crv": "X25519", "x": "AA"},
        {"kty": ["RSA"]},
    )

    def test_a1_19_odd_members_are_ignored(self) -> None:
        keys = parse_jwks(document(*self.ODD, ed25519_jwk(ED25519[0]), rsa_jwk("r1")))
        assert len(keys.with_kid("r1")) == len(keys.ed25519) == len(keys.with_kid(None)) == 1
        assert len(keys.ignored) == len(self.ODD)

    @pytest.mark.parametrize(
        "text",
        [
            b"<html>",
            b"[]",
            b'{"keys":[]}',
            b'{"keys":{}}',
            b"",
            b"\xff",
            document(*ODD),
            b"[" * 99999,
        ],
    )
    def test_a_document_without_usable_keys_is_refused(self, text: bytes) -> None:
        with pytest.raises(NoUsableKeys):
            parse_jwks(text)


class TestJwksCache:
    """The keys that Google publishes."""

    def test_a1_01_ed25519_keys_are_found_in_the_set(self, site: Website) -> None:
        site.body = document(*map(ed25519_jwk, ED25519[:3]))
        cache = JwksCache(site.url, clock=Clock(), max_wait=60)
        assert send(cache, sign_v1a("msg_1", NOW, BODY, ED25519[2])).scheme is Scheme.V1A
        for key, body in ((ED25519[2], BODY + b" "), (ED25519[3], BODY)):
            with pytest.raises(InvalidSignature, match="mismatch"):
                send(cache, sign_v1a("msg_1", NOW, BODY, key), body)
        assert site.hits == 1

    def test_a1_16_a_url_in_the_token_is_never_fetched(self, site: Website) -> None:
        site.body = document(rsa_jwk("r1"))
        cache = JwksCache("http://127.0.0.1:9/jwks", fetch=lambda _: site.body)
        evil = jwt.encode(
            {"aud": "me"}, KEYS[1], algorithm="RS256", headers={"kid": "r1", "jku": site.url}
        )
        with pytest.raises(InvalidSignature):
            send(cache, evil)
        assert site.hits == 0

    def test_a_set_is_fetched_once_and_again_before_it_expires(self, site: Website) -> None:
        clock = Clock()
        site.body = document(rsa_jwk("r1"))
        cache = JwksCache(site.url, clock=clock, max_wait=60)
        for _ in range(3):
            send(cache, token())
        assert site.hits == 1
        clock.now += 0.95 * HOUR
        send(cache, token())
        finish(cache)
        assert site.hits == 2

    def test_many_requests_at_once_fetch_once(self, site: Website) -> None:
        site.body = document(rsa_jwk("r1"))
        site.open.clear()
        cache = JwksCache(site.url, clock=Clock(), max_wait=60)
        seen: list[str] = []
        threads = [
            threading.Thread(target=lambda: seen.append(send(cache, token()).id)) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        site.open.set()
        for thread in threads:
            thread.join()
        assert (len(seen), site.hits) == (8, 1)

    @pytest.mark.parametrize(
        ("status", "body"),
        [(500, b""), (200, b"<html>"), (200, b"[]"), (200, b'{"keys":[]}')],
    )
    def test_a1_18_an_outage_keeps_the_known_keys_for_a_day(
        self, site: Website, status: int, body: bytes
    ) -> None:
        clock = Clock()
        good = site.body = document(rsa_jwk("r1"))
        cache = JwksCache(site.url, clock=clock, max_wait=60)
        send(cache, token())
        site.status, site.body = status, body
        for _ in range(24):
            clock.now += HOUR
            assert send(cache, token()).scheme is Scheme.JWT
            finish(cache)
        clock.now += HOUR
        with pytest.raises(KeysUnavailable, match="jwks_unavailable"):
            send(cache, token())
        site.status, site.body = 200, good
        clock.now += 30
        assert send(cache, token()).scheme is Scheme.JWT

    def test_a1_18_a_hanging_server_holds_no_request_that_has_keys(self, site: Website) -> None:
        clock = Clock()
        site.body = document(rsa_jwk("r1"))
        cache = JwksCache(site.url, clock=clock, max_wait=60)
        send(cache, token())
        site.open.clear()
        clock.now += HOUR
        assert send(cache, token()).scheme is Scheme.JWT
        site.open.set()
        finish(cache)

    def test_a1_18_a_hanging_server_holds_a_request_no_longer_than_allowed(
        self, site: Website
    ) -> None:
        site.open.clear()
        cache = JwksCache(site.url, max_wait=0.05)
        for _ in range(3):
            with pytest.raises(KeysUnavailable, match="jwks_unavailable"):
                send(cache, token())
        site.open.set()
        finish(cache)

    def test_an_attempt_that_never_ends_does_not_stop_the_next(self) -> None:
        clock, never, answers = Clock(), threading.Event(), list[str]()

        def fetch(url: str) -> bytes:
            answers.append(url)
            if len(answers) == 1:
                never.wait()
            return document(rsa_jwk("r1"))

        cache = JwksCache("http://127.0.0.1:9/", clock=clock, fetch=fetch, max_wait=0.01)
        with pytest.raises(KeysUnavailable):
            send(cache, token())
        clock.now += 60
        cache.refresh()
        never.set()
        finish(cache)
        assert len(answers) == 2
        assert send(cache, token()).scheme is Scheme.JWT

    def test_a1_18_after_a_failure_the_server_is_left_alone_for_a_while(
        self, site: Website
    ) -> None:
        clock = Clock()
        site.body = document(rsa_jwk("r1"))
        cache = JwksCache(site.url, clock=clock, max_wait=60)
        send(cache, token())
        site.status = 500
        for pause in (HOUR, 29, 1):
            clock.now += pause
            send(cache, token())
            finish(cache)
        assert site.hits == 3

    def test_a1_18_while_there_is_no_key_at_all_it_is_asked_more_often(self, site: Website) -> None:
        clock = Clock()
        site.status = 500
        cache = JwksCache(site.url, clock=clock, max_wait=60)
        for pause in (0, 4, 1):
            clock.now += pause
            with pytest.raises(KeysUnavailable):
                send(cache, token())
        assert site.hits == 2

    def test_a1_19_odd_members_are_logged_once(self, site: Website) -> None:
        clock = Clock()
        site.body = document(*TestParsing.ODD, rsa_jwk("r1"))
        cache = JwksCache(site.url, clock=clock, max_wait=60)
        with capture_logs() as logs:
            for _ in range(3):
                assert send(cache, token()).scheme is Scheme.JWT
                assert send(cache, token(kid=None)).scheme is Scheme.JWT
                clock.now += HOUR
                finish(cache)
        members = [line["member"] for line in logs if line["event"] == "jwks_member_ignored"]
        assert len(members) == len(set(members)) > 5

    def test_a1_19_without_a_kid_two_keys_are_one_too_many(self, site: Website) -> None:
        site.body = document(rsa_jwk("r1"), rsa_jwk("r2", KEYS[1]))
        cache = JwksCache(site.url, clock=Clock(), max_wait=60)
        for _ in range(3):
            with pytest.raises(InvalidSignature, match="unknown_key"):
                send(cache, token(kid=None))

    def test_an_unknown_kid_asks_for_a_new_set_but_not_each_time(self, site: Website) -> None:
        clock = Clock()
        site.body = document(rsa_jwk("r1"))
        cache = JwksCache(site.url, clock=clock, max_wait=60)
        send(cache, token())
        for _ in range(5):
            with pytest.raises(InvalidSignature, match="unknown_key"):
                send(cache, token(KEYS[1], "r2"))
        assert site.hits == 1
        site.body = document(rsa_jwk("r1"), rsa_jwk("r2", KEYS[1]))
        clock.now += 30
        assert send(cache, token(KEYS[1], "r2")).scheme is Scheme.JWT
        assert site.hits == 2

    @pytest.mark.parametrize("kid", ["r1", None])
    def test_a_new_key_under_a_known_name_works_at_once(
        self, site: Website, kid: str | None
    ) -> None:
        clock = Clock()
        site.body = document(rsa_jwk("r1"))
        cache = JwksCache(site.url, clock=clock)
        send(cache, token(kid=kid))
        site.body = document(rsa_jwk("r1", KEYS[1]))
        clock.now += 30
        assert send(cache, token(KEYS[1], kid)).scheme is Scheme.JWT
        for _ in range(3):
            with pytest.raises(InvalidSignature, match="mismatch"):
                send(cache, token(KEYS[0], kid))
        assert site.hits == 2

    def test_an_unknown_key_during_an_outage_is_no_forgery_yet(self, site: Website) -> None:
        clock = Clock()
        site.body = document(rsa_jwk("r1"), ed25519_jwk(ED25519[0]))
        cache = JwksCache(site.url, clock=clock, max_wait=60)
        send(cache, token())
        site.status = 500
        clock.now += 30
        forged = token(KEYS[1], "r1")
        for signature in (token(KEYS[1], "r2"), forged, sign_v1a("msg_1", NOW, BODY, ED25519[1])):
            with pytest.raises(KeysUnavailable, match="jwks_unavailable"):
                send(cache, signature)

    def test_a_new_ed25519_key_works_at_once(self, site: Website) -> None:
        clock = Clock()
        site.body = document(ed25519_jwk(ED25519[0]))
        cache = JwksCache(site.url, clock=clock, max_wait=60)
        send(cache, sign_v1a("msg_1", NOW, BODY, ED25519[0]))
        site.body = document(ed25519_jwk(ED25519[0]), ed25519_jwk(ED25519[1]))
        clock.now += 30
        assert send(cache, sign_v1a("msg_1", NOW, BODY, ED25519[1])).scheme is Scheme.V1A

    def test_a_redirect_to_another_host_is_not_followed(self, site: Website) -> None:
        site.status, site.location = 302, site.url.replace("127.0.0.1", "localhost")
        with pytest.raises(OSError, match="another host"):
            fetch_jwks(site.url)
        assert site.hits == 1

    def test_a_document_without_end_is_refused(self, site: Website) -> None:
        site.body = document(rsa_jwk("r1")) + b" " * 300_000
        with pytest.raises(ValueError, match="too large"):
            fetch_jwks(site.url)

    @pytest.mark.parametrize(
        "said", [b"HTTP/1.1 100 Continue\r\n\r\n", b"x", b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n{"]
    )
    def test_a_server_that_never_comes_to_an_end_is_left_in_time(self, said: bytes) -> None:
        with Talker(said) as talker:
            with pytest.raises(TimeoutError):
                fetch_jwks(talker.url, within=0.2)
            assert talker.is_left.wait(60)

    @pytest.mark.parametrize(
        "url",
        [
            *("", "file:///etc/passwd", "https://", "jwks.json", "https://[::1", "https://x:y/"),
            *("https://x:99999/", "https://x:0/", "https://me:password@x/", "https://me@x/"),
        ],
    )
    def test_only_a_web_address_will_do(self, url: str) -> None:
        with pytest.raises(Misconfigured, match="no password in it") as caught:
            JwksCache(url)
        assert "me:" not in str(caught.value)


class TestKeyRing:
    """All the keys of a receiver."""

    def test_an_outage_does_not_touch_static_webhooks(self) -> None:
        ring = KeyRing(SigningSecrets(ONE), jwks=JwksCache("http://127.0.0.1:9/"))
        signature = sign_v1("msg_1", NOW, BODY, decode_secret(ONE))
        headers = {
            "webhook-id": "msg_1",
            "webhook-timestamp": str(NOW),
            "webhook-signature": signature,
        }
        assert verify(headers, BODY, ring, now=NOW).scheme is Scheme.V1

    def test_what_is_not_configured_is_unavailable(self) -> None:
        assert KeyRing().secrets == ()
        with pytest.raises(KeysUnavailable):
            KeyRing().ed25519_keys()
        with pytest.raises(KeysUnavailable):
            KeyRing().rsa_keys(None)


def test_a_receiver_of_v1_loads_no_library_for_published_keys() -> None:
    code = (
        "import sys, gemhooks.keys as k; k.KeyRing(k.SigningSecrets(sys.argv[1]));"
        "print({'jwt', 'cryptography', 'urllib.request'} & set(sys.modules))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, ONE],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": "."},
    )
    assert out.stdout == "set()\n"
