"""Health and metrics: where they are served."""

import http.client

import pytest
from prometheus_client import CollectorRegistry

from gemhooks.admin import AdminServer
from gemhooks.errors import Misconfigured


def admin(host: str) -> AdminServer:
    return AdminServer(host, 0, CollectorRegistry(), lambda: True, lambda: True)


def livez(host: str, port: int) -> int:
    connection = http.client.HTTPConnection(host, port, timeout=30)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("host", "by"),
    [("127.0.0.1", ["127.0.0.1"]), ("::1", ["::1"]), ("::", ["127.0.0.1", "::1"])],
)
def test_it_is_served_where_it_was_told(host: str, by: list[str]) -> None:
    server = admin(host)
    server.start()
    try:
        assert [livez(each, server.port) for each in by] == [200] * len(by)
    finally:
        server.stop()


@pytest.mark.parametrize(("path", "status"), [("/livez", 200), ("/metrics", 200), ("/x", 404)])
def test_a_probe_may_ask_for_the_head_only(path: str, status: int) -> None:
    """As `wget --spider` and load balancers do."""
    server = admin("127.0.0.1")
    server.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("HEAD", path)
        answer = connection.getresponse()

        assert (answer.status, answer.read()) == (status, b"")
    finally:
        connection.close()
        server.stop()


def test_a_host_that_is_none_is_told_by_its_own_setting() -> None:
    with pytest.raises(Misconfigured, match=r"GEMHOOKS_ADMIN_HOST: no-such-host\.invalid is no"):
        admin("no-such-host.invalid").start()
