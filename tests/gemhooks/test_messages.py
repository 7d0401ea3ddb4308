"""What travels in headers comes back the same, whatever it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemhooks import messages
from gemhooks.messages import DeadLetter, Message, Source
from gemhooks.runner import LONGEST_AFTER

ANY = st.builds(
    Message,
    id=st.text(min_size=1),
    type=st.text(min_size=1),
    body=st.binary(),
    timestamp=st.integers(0, 2**40),
    time=st.text(),
    scheme=st.sampled_from(["", "v1", "v1a", "jwt"]),
    trust=st.sampled_from(["body", "hint"]),
    source=st.sampled_from(Source),
    attempt=st.integers(1, 1000),
    replay=st.integers(0, 1000),
    waiting=st.integers(0, int(LONGEST_AFTER)),
    traceparent=st.text(),
)


@given(ANY)
def test_a_message_survives_its_journey(message: Message) -> None:
    arrived = messages.from_headers(
        messages.headers_of(message),
        message.body,
        message_id="",
        message_type="",
        timestamp=message.timestamp,
        content_type=message.content_type,
    )

    assert arrived == message


@given(st.text())
def test_the_key_fits_into_amqp_and_tells_replays_apart(text: str) -> None:
    first = Message(text, "x", b"")
    replayed = Message(text, "x", b"", replay=7)

    assert len(replayed.key.encode("utf-8", "surrogatepass")) <= messages.LONGEST_SHORTSTR
    assert first.key != replayed.key


@given(
    st.dictionaries(
        st.sampled_from(list(messages.headers_of(Message("i", "t", b"")))),
        st.integers() | st.text() | st.booleans(),
    )
)
def test_headers_that_others_malformed_count_as_absent(headers: dict[str, str | int]) -> None:
    arrived = messages.from_headers(
        headers, b"", message_id="i", message_type="t", timestamp=0, content_type=""
    )

    assert arrived.attempt >= 1
    assert arrived.id


def test_a_type_beyond_amqp_is_routed_as_unknown() -> None:
    assert Message("i", "x" * 300, b"").routing_key == "unknown"
    assert Message("i", "", b"").routing_key == "unknown"


def arriving(headers: dict[str, str | int], body: bytes = b"") -> Message:
    return messages.from_headers(
        headers, body, message_id="", message_type="", timestamp=0, content_type=""
    )


def test_messages_without_an_id_are_told_apart_by_their_bodies() -> None:
    keys = [arriving({}, body).key for body in (b"1", b"2", b"1")]

    assert keys[0] == keys[2] != keys[1]


@pytest.mark.parametrize("name", ["gemhooks-first-at", "gemhooks-waiting", "gemhooks-attempt"])
def test_a_number_that_none_of_ours_can_be_counts_as_absent(name: str) -> None:
    message = arriving({name: 2**62})

    assert (message.first_at, message.waiting, message.attempt) == (0, 0, 1)
    assert DeadLetter("reason").headers(message, "queue")["gemhooks-dead-first-at"]
