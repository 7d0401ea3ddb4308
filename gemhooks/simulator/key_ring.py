"""The keys that Gemini publishes, and the private halves that sign with them."""

import base64
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gemhooks import signing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

K = TypeVar("K")

PUBLISHED_AT_ONCE = 3  # Ed25519 keys, as seen live
RSA_BITS = 2048


@dataclass(frozen=True)
class Named(Generic[K]):
    kid: str
    private: K


class KeyRing:
    """Made when they are first needed: most simulators never sign with them.

    The newest of each kind signs. `cryptography` is imported here only, and late.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._ed25519: list[Named[Ed25519PrivateKey]] = []
        self._rsa: list[Named[RSAPrivateKey]] = []

    def sign_v1a(self, webhook_id: str, timestamp: int, body: bytes) -> str:
        return signing.sign_v1a(webhook_id, timestamp, body, self._ed25519_keys()[-1].private)

    def sign_jwt(self, claims: Mapping[str, Any]) -> str:
        newest = self._rsa_keys()[-1]
        return signing.sign_jwt(claims, newest.private, kid=newest.kid)

    def jwks(self) -> dict[str, Any]:
        ed25519 = [_okp(key.kid, key.private) for key in self._ed25519_keys()]
        return {"keys": [*ed25519, *(_rsa(key.kid, key.private) for key in self._rsa_keys())]}

    def rotate(self) -> None:
        """Sign with new keys from now on; the older ones stay published."""
        self._ed25519_keys()  # the first of each are made when they are needed
        self._rsa_keys()
        with self._lock:
            self._ed25519.append(self._named(_new_ed25519))
            self._rsa.append(self._named(_new_rsa))

    def retire(self) -> None:
        """Publish the keys that sign, and no others any more."""
        with self._lock:
            del self._ed25519[:-1], self._rsa[:-1]

    def _ed25519_keys(self) -> Sequence["Named[Ed25519PrivateKey]"]:
        with self._lock:
            while not self._ed25519:
                several = range(PUBLISHED_AT_ONCE)
                self._ed25519 = [self._named(_new_ed25519) for _ in several]
            return tuple(self._ed25519)

    def _rsa_keys(self) -> Sequence["Named[RSAPrivateKey]"]:
        with self._lock:
            if not self._rsa:
                self._rsa = [self._named(_new_rsa)]
            return tuple(self._rsa)

    def _named(self, make: Callable[[], K]) -> Named[K]:
        return Named(f"simulated-{next(self._numbers)}", make())


def _new_ed25519() -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - see KeyRing

    return ed25519.Ed25519PrivateKey.generate()


def _new_rsa() -> "RSAPrivateKey":
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415 - see KeyRing

    return rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)


def _okp(kid: str, private: "Ed25519PrivateKey") -> dict[str, str]:
    x = _b64url(private.public_key().public_bytes_raw())
    return {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": kid, "x": x}


def _rsa(kid: str, private: "RSAPrivateKey") -> dict[str, str]:
    public = private.public_key().public_numbers()
    n = _b64url(public.n.to_bytes(RSA_BITS // 8, "big"))
    return {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": kid, "n": n, "e": "AQAB"}


def _b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
