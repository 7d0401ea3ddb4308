"""What we ask for by plain HTTP is answered by whom we asked, and by nobody else."""

import contextlib
import urllib.error
from collections.abc import Callable, Iterator
from urllib.request import Request

import pika
import pytest
from typer.testing import CliRunner

from gemhooks.asking import NO_ANSWER, asked
from gemhooks.cli import app, listen, sending
from gemhooks.doctor.gemini import look_at_clock
from gemhooks.errors import GemhooksError
from gemhooks.queues.rabbitmq import management
from gemhooks.testing import message
from gemhooks.webhooks.receivers import Receivers
from tests.services.website import Website

REDIRECTS = [301, 302, 303, 307, 308]
SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def elsewhere() -> Iterator[Website]:
    """Where nothing of ours belongs; it would take anything."""
    with Website() as site:
        site.body = b"{}"
        yield site


@pytest.fixture
def site(elsewhere: Website) -> Iterator[Website]:
    """One that points elsewhere."""
    with Website() as site:
        site.status, site.location = 302, elsewhere.url
        yield site


@pytest.mark.parametrize("body", [None, b"{}"], ids=["GET", "POST"])
@pytest.mark.parametrize("status", REDIRECTS)
def test_a_redirect_is_a_refusal_and_nobody_else_is_asked(
    site: Website, elsewhere: Website, status: int, body: bytes | None
) -> None:
    site.status = status

    with pytest.raises(urllib.error.HTTPError) as refusal:
        asked(Request(site.url, body), timeout=10)  # noqa: S310 - it is on loopback

    refusal.value.close()
    assert (refusal.value.code, site.hits, elsewhere.hits) == (status, 1, 0)


@pytest.mark.parametrize("place", ["", "http://[::1", "/jwks.json", "file:///etc/passwd", "a b"])
def test_it_does_not_matter_where_a_redirect_points(site: Website, place: str) -> None:
    site.location = place

    with pytest.raises(urllib.error.HTTPError) as refusal:
        asked(site.url, timeout=10)

    refusal.value.close()
    assert (refusal.value.code, site.hits) == (302, 1)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/", "data:,x", "no url"])
def test_only_http_is_spoken(url: str) -> None:
    with pytest.raises(NO_ANSWER):
        asked(url, timeout=10)


def test_a_triggered_event_that_is_redirected_was_not_taken(
    site: Website, elsewhere: Website
) -> None:
    env = {"GEMINI_WEBHOOK_SECRET": SECRET}

    done = CliRunner().invoke(app, ["trigger", "batch.failed", "--to", site.url], env=env)

    assert (done.exit_code, elsewhere.hits) == (1, 0)
    assert "answered 302" in done.output


def test_an_event_that_is_forwarded_goes_no_further(site: Website, elsewhere: Website) -> None:
    key = sending.key_of(SECRET)

    assert listen.forward(message("batch.failed"), site.url, key) == 302
    assert elsewhere.hits == 0


def of_the_management_api(url: str) -> None:
    management.queues(url, pika.URLParameters("amqp://user:password@127.0.0.1/"))


def of_a_receiver(url: str) -> None:
    Receivers((url,)).look()


def of_the_clock(url: str) -> None:
    list(look_at_clock(url))


@pytest.mark.parametrize("ask", [of_the_management_api, of_a_receiver, of_the_clock])
def test_who_asks_asks_nobody_else(
    site: Website, elsewhere: Website, ask: Callable[[str], None]
) -> None:
    with contextlib.suppress(GemhooksError):
        ask(site.url)

    assert (site.hits, elsewhere.hits) == (1, 0)


def test_a_receiver_that_sends_us_away_is_not_ready(site: Website, elsewhere: Website) -> None:
    assert "answers 302" in Receivers((site.url,)).unready()
    assert elsewhere.hits == 0
