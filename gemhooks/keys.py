"""Where the keys come from: secrets from the environment or files, public keys from Google.

Both are read again while the receiver runs, so that a key is replaced without a restart, and a
bad answer never takes the place of good keys.
"""

import binascii
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, cast
from urllib.parse import urlsplit

import structlog

from gemhooks.errors import KeysUnavailable, Misconfigured
from gemhooks.signing import (
    Ed25519Key,
    RsaKey,
    Scheme,
    Secret,
    decode_secret,
    fingerprint,
)

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

SECRET_SETTING = "GEMINI_WEBHOOK_SECRET"  # noqa: S105 - the name of a setting
GOOGLE_JWKS_URL = "https://generativelanguage.googleapis.com/.well-known/jwks.json"
STAT_SECONDS = 1.0
FETCH_TIMEOUT_SECONDS = 5.0
MAX_FETCH_SECONDS = 10.0
EAGER_SECONDS = 5.0  # between attempts while there is no key at all: every such webhook is refused
MAX_ATTEMPT_SECONDS = 60.0  # by then its thread has died, as in a forked process
MAX_JWKS_BYTES = 256 * 1024
MAX_JWKS_MEMBERS = 100
MIN_RSA_BITS = 2048
ED25519_KEY_BYTES = 32

Key = TypeVar("Key", Ed25519Key, RsaKey)

log = structlog.get_logger(__name__)


class SigningSecrets:
    """The secrets shared with Gemini, as of at most a second ago.

    *text* holds one or several, separated by spaces or commas. *path* is a file of the same
    form, or a folder of such files, as Kubernetes mounts a Secret; names with a leading dot are
    skipped. Both may be given.

    Raises Misconfigured if there is no secret at all or any that is not valid. Later on, such a
    change is reported once, in a sentence that shows no secret, and the old ones stay.
    """

    def __init__(
        self,
        text: str = "",
        *,
        path: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_bad_reload: Callable[[str], None] | None = None,
    ) -> None:
        self._text = text
        self._path = path
        self._clock = clock
        self._on_bad_reload = on_bad_reload or _warn_of_bad_reload
        self._lock = threading.Lock()
        self._seen = _stamp(path)
        self._reported: object = None
        self._secrets = read_secrets(text, path)
        self._next_look = clock() + STAT_SECONDS

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The current secrets; never empty, never an error."""
        # A request that finds another one looking does not wait for it.
        if self._path and self._clock() >= self._next_look and self._lock.acquire(blocking=False):
            try:
                self._next_look = self._clock() + STAT_SECONDS
                self._look()
            finally:
                self._lock.release()
        return self._secrets

    def _look(self) -> None:
        stamp = _stamp(self._path)  # before reading: a change in between shows up next time
        if stamp == self._seen:
            return
        try:
            self._secrets = read_secrets(self._text, self._path)
        except Misconfigured as error:
            self._report(stamp, str(error))
            return  # and read again at the next look: what hinders it may leave no stamp
        self._seen = stamp
        log.info("webhook_secrets_reloaded", keys=[each.fingerprint for each in self._secrets])

    def _report(self, stamp: Sequence[object], problem: str) -> None:
        """Each problem once, however often it is met."""
        if self._reported != (stamp, problem):
            self._reported = stamp, problem
            self._on_bad_reload(problem)

    def __repr__(self) -> str:
        return f"SigningSecrets({', '.join(one.fingerprint for one in self._secrets)})"


def _warn_of_bad_reload(problem: str) -> None:
    log.warning("webhook_secrets_not_reloaded", problem=problem)


def read_secrets(text: str, path: Path | None) -> tuple[Secret, ...]:
    """The secrets in *text* and at *path*, each once; Misconfigured for none or a bad one."""
    found = {secret.key: secret for secret in _parse_secrets(text, SECRET_SETTING)}
    for file in files_of(path):
        found |= {secret.key: secret for secret in _parse_secrets(_read(file), str(file))}
    if not found:
        where = f"{SECRET_SETTING} and {path}" if path else SECRET_SETTING
        raise Misconfigured(f"No webhook secret is set: {where} must hold at least one.")
    return tuple(found.values())


def _parse_secrets(text: str, source: str) -> list[Secret]:
    entries = text.replace(",", " ").split()
    secrets = []
    for number, entry in enumerate(entries, 1):
        try:
            key = decode_secret(entry)
        except Misconfigured as error:
            which = f" (number {number} of {len(entries)})" if len(entries) > 1 else ""
            raise Misconfigured(f"{source}{which}: {error}") from None
        secrets.append(Secret(key, fingerprint(key)))
    return secrets


def files_of(path: Path | None) -> list[Path]:
    """The files that hold secrets: *path* itself, or what lies in that folder, newest first.

    After a rotation most requests are signed with the newest, and where Gemini signs with several
    it is the newest that counts as the one that verified.
    """
    if path is None:
        return []
    try:
        if not path.is_dir():
            return [path]
        entries = [one for one in sorted(path.iterdir()) if not one.name.startswith(".")]
        files = [one for one in entries if one.is_file()]
        return sorted(files, key=lambda one: -one.stat().st_mtime_ns)
    except OSError as error:
        _unreadable(path, error)


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except OSError as error:
        _unreadable(file, error)
    except UnicodeDecodeError:
        raise Misconfigured(f"{file} holds no text, so no webhook secret.") from None


def _unreadable(path: Path, error: OSError) -> NoReturn:
    raise Misconfigured(f"The webhook secrets in {path} can't be read: {error.strerror}.") from None


def _stamp(path: Path | None) -> Sequence[object]:
    """Return what changes whenever a secret file does, without reading one."""
    stamps: list[object] = []
    try:
        for file in files_of(path):
            found = file.stat()
            stamps.append((file.name, found.st_ino, found.st_mtime_ns, found.st_size))
    except (OSError, Misconfigured):
        stamps.append(None)
    return stamps


@dataclass(frozen=True, slots=True)
class PublishedKeys:
    """The keys of one JWKS document that can check a webhook."""

    ed25519: tuple[Ed25519Key, ...]
    rsa: tuple[tuple[str | None, RsaKey], ...]
    ignored: tuple[str, ...]

    def fingerprints(self) -> Iterator[tuple[str, str]]:
        """Yield the scheme and the fingerprint of each key."""
        yield from ((Scheme.V1A.value, key.fingerprint) for key in self.ed25519)
        yield from ((Scheme.JWT.value, key.fingerprint) for _, key in self.rsa)

    def with_kid(self, kid: str | None) -> tuple[RsaKey, ...]:
        """Return the RSA keys of that name; for None the only one, where there is only one."""
        if kid is None:
            return tuple(key for _, key in self.rsa) if len(self.rsa) == 1 else ()
        return tuple(key for name, key in self.rsa if name == kid)


class NoUsableKeys(ValueError):
    """A JWKS document without a single key that we can use."""


def parse_jwks(document: bytes) -> PublishedKeys:
    """Return the usable keys of *document*; one bad member does not spoil the others.

    Raises NoUsableKeys if none is left.
    """
    try:
        members = json.loads(document)["keys"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise NoUsableKeys("not a JWKS document") from None
    if not isinstance(members, list):
        raise NoUsableKeys("not a JWKS document")
    keys = _parse_members(members[:MAX_JWKS_MEMBERS])
    if not keys.ed25519 and not keys.rsa:
        raise NoUsableKeys("no usable key")
    return keys


def _parse_members(members: Iterable[object]) -> PublishedKeys:
    ed25519: list[Ed25519Key] = []
    rsa: list[tuple[str | None, RsaKey]] = []
    ignored: list[str] = []
    for position, member in enumerate(members):
        try:
            key = _parse_member(member)
        except Exception as error:  # whatever a library raises for it, it is only this member
            ignored.append(_describe(position, member, error))
            continue
        if isinstance(key, Ed25519Key):
            ed25519.append(key)
        else:
            rsa.append((_kid(member), key))
    return PublishedKeys(tuple(ed25519), tuple(rsa), tuple(ignored))


def _parse_member(member: object) -> Ed25519Key | RsaKey:
    if not isinstance(member, dict):
        raise TypeError("not an object")
    if member.get("use", "sig") != "sig" or "verify" not in member.get("key_ops", ["verify"]):
        raise ValueError("not for signatures")
    kind, alg = member.get("kty"), member.get("alg")
    if kind == "OKP" and member.get("crv") == "Ed25519" and alg in (None, "EdDSA", "Ed25519"):
        return _ed25519_key(member)
    if kind == "RSA" and alg in (None, "RS256"):
        return _rsa_key(member)
    raise ValueError("unknown kind of key")


def _ed25519_key(member: Mapping[str, Any]) -> Ed25519Key:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - memory
        Ed25519PublicKey,
    )

    raw = _base64url(member["x"])
    if len(raw) != ED25519_KEY_BYTES:
        raise ValueError("not an Ed25519 key")
    return Ed25519Key(Ed25519PublicKey.from_public_bytes(raw), fingerprint(raw))


def _rsa_key(member: Mapping[str, Any]) -> RsaKey:
    from cryptography.hazmat.primitives.asymmetric.rsa import (  # noqa: PLC0415 - memory
        RSAPublicNumbers,
    )

    modulus, exponent = _base64url(member["n"]), _base64url(member["e"])
    numbers = RSAPublicNumbers(int.from_bytes(exponent), int.from_bytes(modulus))
    if numbers.n.bit_length() < MIN_RSA_BITS:
        raise ValueError("an RSA key that is too short")
    return RsaKey(numbers.public_key(), fingerprint(exponent + b"." + modulus))


def _base64url(text: str) -> bytes:
    standard = text.rstrip("=").replace("-", "+").replace("_", "/")
    return binascii.a2b_base64(standard + "=" * (-len(standard) % 4), strict_mode=True)


def _kid(member: object) -> str | None:
    kid = member.get("kid") if isinstance(member, dict) else None
    return kid if isinstance(kid, str) else None


def _describe(position: int, member: object, error: Exception) -> str:
    kind = str(member.get("kty"))[:20] if isinstance(member, dict) else type(member).__name__
    return f"{_kid(member) or position!s:.40} ({kind}): {type(error).__name__}: {error!s:.100}"


class WouldWait(Exception):
    """Published keys must be waited for, and whoever asked does not wait."""


class JwksCache:
    """The keys that Google publishes, fetched by a thread, never by a request.

    A set is good for *lifetime* seconds, and a new one is asked for a little before that; while
    there is none to be had, the old one serves for up to *stale* seconds more. Attempts are at
    least *cooldown* seconds apart, also those for a key that the set lacks, and EAGER_SECONDS
    while there is no set at all. A request waits for an attempt only when it needs it, and only
    until the attempt is *max_wait* seconds old; one that does not *wait* gets WouldWait instead.

    *fetch* returns the document at a URL or raises anything.

    Raises Misconfigured if *url* is no http(s) URL, or holds a name or a password.
    """

    def __init__(
        self,
        url: str = GOOGLE_JWKS_URL,
        *,
        fetch: Callable[[str], bytes] | None = None,
        clock: Callable[[], float] = time.monotonic,
        lifetime: float = 3600,
        stale: float = 24 * 3600,
        cooldown: float = 30,
        max_wait: float = 2,
    ) -> None:
        if not _is_web_address(url):
            raise Misconfigured(
                "The URL of the published keys must be that of a host, with https:// or http://"
                " before it and no password in it."
            )
        self._url = url
        self._fetch = fetch or fetch_jwks
        self._clock = clock
        self._lifetime, self._stale = lifetime, stale
        self._cooldown, self._max_wait = cooldown, max_wait
        self._lock = threading.Lock()
        self._keys: PublishedKeys | None = None
        self._fetched_at = 0.0
        self._attempt: _Attempt | None = None
        self._reported: set[str] = set()

    def refresh(self) -> None:
        """Start fetching if that is due, and return at once: for a receiver that starts."""
        if self._is_due():
            self._begin()

    def fingerprints(self) -> Iterator[tuple[str, str]]:
        """Yield the scheme and the fingerprint of each key that serves now; fetches nothing."""
        keys = self._usable()
        return keys.fingerprints() if keys else iter(())

    def age(self) -> float | None:
        """Return the seconds since the set was fetched; None if there never was one."""
        return None if self._keys is None else self._clock() - self._fetched_at

    def ed25519_keys(self, *, wait: bool = True) -> Iterator[Ed25519Key]:
        """Yield the keys for ``v1a``, then any newer ones to a caller for whom none fits.

        Raises KeysUnavailable if there is no set, or, at the end, no newer one to be had.
        """
        return self._known_then_newer(lambda keys: keys.ed25519, wait=wait)

    def rsa_keys(self, kid: str | None, *, wait: bool = True) -> Iterator[RsaKey]:
        """Yield the keys for ``jwt`` named *kid* (None: see with_kid), in the same way.

        A name may be given to a new key: that the known one does not fit proves nothing yet.
        """
        return self._known_then_newer(lambda keys: keys.with_kid(kid), wait=wait)

    def _known_then_newer(
        self, of: Callable[[PublishedKeys], Sequence[Key]], *, wait: bool
    ) -> Iterator[Key]:
        known = of(self._current(wait=wait))
        yield from known
        tried = {key.fingerprint for key in known}
        yield from (key for key in of(self._newer(wait=wait)) if key.fingerprint not in tried)

    def _current(self, *, wait: bool) -> PublishedKeys:
        self.refresh()
        if self._usable() is None:
            self._wait(wait=wait)
        keys = self._usable()
        if keys is None:
            raise KeysUnavailable("jwks_unavailable")
        return keys

    def _newer(self, *, wait: bool) -> PublishedKeys:
        """Return a set that was fetched just now, or within the cool-down."""
        self._begin()
        self._wait(wait=wait)
        attempt, keys = self._attempt, self._usable()
        if keys is None or attempt is None or not attempt.succeeded:
            raise KeysUnavailable("jwks_unavailable")  # a 401 would be a guess
        return keys

    def _usable(self) -> PublishedKeys | None:
        age = self._clock() - self._fetched_at
        return self._keys if age < self._lifetime + self._stale else None

    def _is_due(self) -> bool:
        return self._keys is None or self._clock() - self._fetched_at >= 0.9 * self._lifetime

    def _begin(self) -> None:
        """Start an attempt, unless one is under way or was a moment ago."""
        with self._lock:
            last, now = self._attempt, self._clock()
            if last and now - last.began_at < self._pause_after(last):
                return
            attempt = self._attempt = _Attempt(now, threading.Event())
            work = threading.Thread(target=self._run, args=(attempt,), name="jwks", daemon=True)
            try:
                work.start()
            except RuntimeError:  # no thread to be had: an attempt that failed
                attempt.done.set()

    def _pause_after(self, attempt: "_Attempt") -> float:
        if not attempt.done.is_set():
            return MAX_ATTEMPT_SECONDS
        return self._cooldown if self._usable() else min(self._cooldown, EAGER_SECONDS)

    def _wait(self, *, wait: bool) -> None:
        attempt = self._attempt
        if attempt is None or attempt.done.is_set():
            return
        seconds = attempt.began_at + self._max_wait - self._clock()
        if seconds > 0 and not wait:
            raise WouldWait
        attempt.done.wait(max(0, seconds))

    def _run(self, attempt: "_Attempt") -> None:
        try:
            keys = parse_jwks(self._fetch(self._url))
            self._keys, self._fetched_at = keys, self._clock()
            attempt.succeeded = True
            self._report(keys.ignored)
        except Exception as error:  # an answer of any kind that has no keys: the old ones stay
            log.warning("jwks_not_fetched", error=f"{type(error).__name__}: {error!s:.200}")
        finally:
            attempt.done.set()

    def _report(self, ignored: Iterable[str]) -> None:
        for one in ignored:
            if one not in self._reported and len(self._reported) < MAX_JWKS_MEMBERS:
                self._reported.add(one)
                log.warning("jwks_member_ignored", member=one)


@dataclass(slots=True)
class _Attempt:
    began_at: float
    done: threading.Event
    succeeded: bool = False


def _is_web_address(url: str) -> bool:
    """A name and a password urllib takes for a part of the host, and puts them in its errors."""
    try:
        parts = urlsplit(url)
        is_plain = parts.username is None and parts.port != 0
    except ValueError:  # a port that is none, half an IPv6 address
        return False
    return is_plain and parts.scheme in ("http", "https") and bool(parts.hostname)


def fetch_jwks(url: str, *, within: float = MAX_FETCH_SECONDS) -> bytes:
    """Return the document at *url*: of bounded size, in bounded time, from that host alone.

    Raises OSError, ValueError or HTTPException.
    """
    document = b""
    with _Deadline(within) as deadline:
        opener = _opener(deadline)
        with opener.open(url, timeout=FETCH_TIMEOUT_SECONDS) as response:
            while part := response.read1(65536):
                document += part
                if len(document) > MAX_JWKS_BYTES:
                    raise ValueError("the document is too large")
    return document


class _Deadline:
    """Hangs up when its time is over, and says so.

    A socket's own time-out begins anew with each byte: a server that says one now and then, in
    the head of its answer, would have no end.
    """

    def __init__(self, seconds: float) -> None:
        self._is_over = False
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._hang_up)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._check()  # an answer that was cut short looks like any other

    def watch(self, opened: socket.socket) -> None:
        self._sockets.append(opened)
        self._check()

    def _check(self) -> None:
        if self._is_over:
            raise TimeoutError("the document came too slowly")

    def _hang_up(self) -> None:
        self._is_over = True
        for each in list(self._sockets):
            with suppress(OSError):  # it is closed
                socket.socket.shutdown(each, socket.SHUT_RDWR)  # not TLS's, which ends TLS first


def _opener(deadline: _Deadline) -> "OpenerDirector":
    from urllib import error, request  # noqa: PLC0415 - memory

    class SameHost(request.HTTPRedirectHandler):
        def redirect_request(  # noqa: PLR0917
            self, req: request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
        ) -> request.Request | None:
            if urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
                raise error.HTTPError(req.full_url, code, "redirect to another host", headers, fp)
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    class Watched(request.AbstractHTTPHandler):
        def do_open(self, http_class: Any, req: request.Request, **how: Any) -> Any:
            class Connection(http_class):  # type: ignore[misc]
                def connect(self) -> None:
                    super().connect()
                    deadline.watch(self.sock)

            return super().do_open(cast("Any", Connection), req, **how)

    class Http(Watched, request.HTTPHandler):
        pass

    class Https(Watched, request.HTTPSHandler):
        pass

    return request.build_opener(SameHost, Http, Https)


class KeyRing:
    """All the keys of a receiver: what ``signing.verify`` takes.

    Without *secrets*, or without *jwks*, the schemes that need them raise KeysUnavailable. One
    that does not *wait* raises WouldWait where another would wait for published keys.
    """

    def __init__(
        self,
        secrets: SigningSecrets | None = None,
        *,
        jwks: JwksCache | None = None,
        wait: bool = True,
    ) -> None:
        self._secrets = secrets
        self._jwks = jwks
        self._wait = wait

    def at_once(self) -> "KeyRing":
        """The same keys, for a caller that does not wait."""
        return KeyRing(self._secrets, jwks=self._jwks, wait=False)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The shared secrets as of now."""
        return self._secrets.secrets if self._secrets else ()

    def refresh(self) -> None:
        """Look for changed secrets, and fetch published keys if that is due; waits for nothing."""
        if self._secrets:
            _ = self._secrets.secrets
        if self._jwks:
            self._jwks.refresh()

    def fingerprints(self) -> Iterator[tuple[str, str]]:
        """Yield the scheme and the fingerprint of each key, all of them public."""
        yield from ((Scheme.V1.value, each.fingerprint) for each in self.secrets)
        if self._jwks:
            yield from self._jwks.fingerprints()

    def published_age(self) -> float | None:
        """Return the seconds since the published keys were fetched; None while there are none."""
        return self._jwks.age() if self._jwks else None

    def ed25519_keys(self) -> Iterator[Ed25519Key]:
        """Return the published keys for ``v1a``; see JwksCache."""
        return self._published().ed25519_keys(wait=self._wait)

    def rsa_keys(self, kid: str | None) -> Iterator[RsaKey]:
        """Return the published keys for ``jwt``; see JwksCache."""
        return self._published().rsa_keys(kid, wait=self._wait)

    def _published(self) -> JwksCache:
        if self._jwks is None:
            raise KeysUnavailable("jwks_unavailable")
        return self._jwks
