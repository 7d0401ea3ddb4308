"""Connections for raw requests: to our own origin, or to strangers with public addresses only."""

import ipaddress
import socket
from threading import Lock
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.connection import HTTPSConnection
from urllib3.connectionpool import HTTPSConnectionPool

from gemhooks.errors import Refused

CONNECTIONS = 16  # kept open per host


class PublicConnection(HTTPSConnection):
    """Refuses an address that is not on the public internet, before a byte is sent to it.

    The name is checked elsewhere; this is for a name that leads inside.
    """

    def _new_conn(self) -> socket.socket:
        connected = super()._new_conn()
        address = connected.getpeername()[0]
        if not ipaddress.ip_address(address.partition("%")[0]).is_global:
            connected.close()
            raise Refused("a result's host leads to a private address")
        return connected


class PublicPool(HTTPSConnectionPool):
    ConnectionCls = PublicConnection  # pyright: ignore[reportAssignmentType]  # urllib3's own too


class Pools:
    """One manager for each way out: direct, public only, or a proxy of the environment."""

    def __init__(self, timeout: float) -> None:
        self._timeout = urllib3.Timeout(connect=timeout, read=timeout)
        self._lock = Lock()
        self._own = self._manager()
        self._strangers = self._manager()
        self._strangers.pool_classes_by_scheme = {"https": PublicPool}
        self._proxies: dict[str, urllib3.PoolManager] = {}

    def of(self, scheme: str, host: str, *, own: bool) -> urllib3.PoolManager:
        """The connections to *host*; through a proxy, what is private is the proxy's to know."""
        proxy = getproxies().get(scheme)
        if proxy and not proxy_bypass(host):
            with self._lock:
                return self._proxies.setdefault(proxy, self._manager(proxy))
        return self._own if own else self._strangers

    def close(self) -> None:
        for manager in (self._own, self._strangers, *self._proxies.values()):
            manager.clear()

    def _manager(self, proxy: str | None = None) -> urllib3.PoolManager:
        if proxy:
            return urllib3.ProxyManager(
                proxy, maxsize=CONNECTIONS, retries=False, timeout=self._timeout
            )
        return urllib3.PoolManager(maxsize=CONNECTIONS, retries=False, timeout=self._timeout)
