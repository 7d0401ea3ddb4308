"""What only the body of a refusal says, by each way to ask: Google's client and our own."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from gemhooks.errors import Refused, Retry
from gemhooks.gemini import Gemini
from gemhooks.metrics import GeminiMetrics
from tests.gemhooks.gemini.scripted import ScriptedServer

KEY = "AIza-not-a-real-key-0123456789"
ASKING: dict[str, Callable[[Gemini], object]] = {
    "an interaction, by Google's client": lambda gemini: gemini.interactions.get("int_1"),
    "a start, by Google's client": lambda gemini: gemini.starts.batch(model="m", src="files/a"),
    "an operation, by ours": lambda gemini: gemini.operations.get("batches/b1"),
    "a start, by ours": lambda gemini: gemini.starts.video(model="m", instances=[]),
}
GOOGLE = "type.googleapis.com/google.rpc."


@dataclass
class Asking:
    """One way to ask a scripted server, and the metric of its answers."""

    server: ScriptedServer
    ask: Callable[[], object]
    registry: CollectorRegistry

    def refuse(self, status: int, *details: Any, **headers: str) -> None:
        error = {"code": status, "message": "Please wait.", "status": "X", "details": details}
        self.server.answer(status, json.dumps({"error": error}).encode(), **headers)

    def answers(self) -> dict[str, float]:
        """How many there were of each class."""
        (family,) = self.registry.collect()
        return {
            each.labels["answer"]: each.value
            for each in family.samples
            if each.name == "gemhooks_gemini_requests_total"
        }


@pytest.fixture(params=ASKING)
def asking(server: ScriptedServer, request: pytest.FixtureRequest) -> Iterator[Asking]:
    registry = CollectorRegistry()
    asked = GeminiMetrics(registry).asked
    with closing(Gemini(KEY, base_url=server.url, asked=asked)) as gemini:
        yield Asking(server, lambda: ASKING[request.param](gemini), registry)


def retry_info(delay: Any) -> dict[str, Any]:
    return {"@type": f"{GOOGLE}RetryInfo", "retryDelay": delay}


def wait_of(asking: Asking) -> float:
    with pytest.raises(Retry) as caught:
        asking.ask()
    assert caught.value.after is None
    return caught.value.at_least


@pytest.mark.parametrize(("delay", "wait"), [("34s", 34.0), ("34.074824224s", 34.074824224)])
def test_the_delay_in_the_body_of_a_429_is_the_least_wait(
    asking: Asking, delay: str, wait: float
) -> None:
    asking.refuse(429, {"@type": f"{GOOGLE}QuotaFailure"}, retry_info(delay))

    assert wait_of(asking) == wait


def test_a_503_may_say_its_delay_in_the_body_too(asking: Asking) -> None:
    asking.refuse(503, retry_info("9s"))

    assert wait_of(asking) == 9.0


@pytest.mark.parametrize(("header", "wait"), [("7", 34.0), ("77", 77.0), ("soon", 34.0)])
def test_of_a_header_and_a_body_the_longer_wait_is_kept(
    asking: Asking, header: str, wait: float
) -> None:
    asking.refuse(429, retry_info("34s"), Retry_After=header)

    assert wait_of(asking) == wait


@pytest.mark.parametrize("delay", ["86400s", "9" * 400 + "s"])
def test_a_delay_is_kept_up_to_an_hour(asking: Asking, delay: str) -> None:
    asking.refuse(429, retry_info(delay))

    assert wait_of(asking) == 3600.0


@pytest.mark.parametrize(
    "detail",
    [
        *map(retry_info, ["", "s", "34", "34m", "-34s", "+34s", "1e9s", "nans", "infs", "٣s"]),
        *map(retry_info, [None, 34, 1.5, True, [], {"seconds": 34}]),
        {},
        None,
        7,
        "RetryInfo",
    ],
)
def test_a_malformed_delay_is_ignored(asking: Asking, detail: Any) -> None:
    asking.refuse(429, detail)

    assert wait_of(asking) == 0.0


@pytest.mark.parametrize(
    "body",
    ["null", "7", "[]", '{"error":7}', '{"error":{"details":7}}', '{"error":{"details":{}}}'],
)
def test_a_body_of_another_shape_is_ignored(asking: Asking, body: str) -> None:
    asking.server.answer(429, body.encode())

    assert wait_of(asking) == 0.0


def error_info(reason: Any) -> dict[str, Any]:
    about = {"service": "generativelanguage.googleapis.com"}
    domain = "googleapis.com"
    return {"@type": f"{GOOGLE}ErrorInfo", "reason": reason, "domain": domain, "metadata": about}


def local(message: str) -> dict[str, Any]:
    return {"@type": f"{GOOGLE}LocalizedMessage", "locale": "en-US", "message": message}


@pytest.mark.parametrize(
    "message",
    ["API key not valid. Please pass a valid API key.", "API key expired. Please renew it."],
)
def test_the_400_for_an_invalid_or_expired_key_is_a_401(asking: Asking, message: str) -> None:
    asking.refuse(400, error_info("API_KEY_INVALID"), local(message))

    with pytest.raises(Refused, match=r"refuses our API key for this \(400\)") as caught:
        asking.ask()

    assert caught.value.status == 401
    assert asking.answers() == {"401": 1}


@pytest.mark.parametrize(
    "detail", [*map(error_info, ["FIELD_INVALID", "", None, 7, ["API_KEY_INVALID"]]), None, 7]
)
def test_any_other_400_is_one(asking: Asking, detail: Any) -> None:
    asking.refuse(400, detail)

    with pytest.raises(Refused, match="400: Please wait") as caught:
        asking.ask()

    assert caught.value.status == 400
    assert asking.answers() == {"4xx": 1}


@pytest.mark.parametrize(("status", "answer"), [(401, "401"), (403, "403"), (429, "429")])
def test_only_a_400_is_taken_for_a_refused_key(asking: Asking, status: int, answer: str) -> None:
    asking.refuse(status, error_info("API_KEY_INVALID"))

    with pytest.raises((Refused, Retry)):
        asking.ask()

    assert asking.answers() == {answer: 1}


@pytest.mark.parametrize("body", [b"", b"{", b"null"])
def test_a_refusal_that_cannot_be_read_is_one_by_its_status(asking: Asking, body: bytes) -> None:
    asking.server.answer(400, body)

    with pytest.raises(Refused) as caught:
        asking.ask()

    assert caught.value.status == 400
    assert asking.answers() == {"4xx": 1}
