"""A command waits before it asks once more, never shorter than is planned."""

from contextlib import closing

from gemhooks.gemini.client import Connection
from gemhooks.gemini.webhooks import Webhooks
from tests.gemhooks.gemini.scripted import ScriptedServer


def test_a_wait_that_gemini_asks_for_lengthens_a_pause_and_never_shortens_it(
    server: ScriptedServer,
) -> None:
    for seconds in ("7", "0", "1"):
        server.answer(429, b"{}", Retry_After=seconds)
    server.answer(200, b"{}")
    pauses: list[float] = []

    with closing(Connection("any", base_url=server.url)) as connection:
        assert Webhooks(connection, sleep=pauses.append).list() == ()

    assert pauses == [7.0, 1.0, 2.0]
