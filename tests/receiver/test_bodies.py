"""What a verified body may be: anything. It is stored, and its reader decides what it is."""

import gzip
import json
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from gemhooks import events
from gemhooks.errors import Undecodable
from tests.receiver.serving import BODY, Site, request, served, signed

EVENT = {"type": "interaction.completed", "version": "v1", "data": {"id": "int_1"}}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with served() as site:
        yield site


def stored(site: Site, body: bytes, **headers: str) -> str:
    """The type that *body* is stored under, untouched."""
    assert site.status(request(body, more=headers)) == 204
    message = site.publisher.messages[-1]
    assert message.body == body
    return message.type


DEEP = [
    b"[" * 20_000 + b"]" * 20_000,
    json.dumps({**EVENT, "data": {"id": "i", "x": json.loads("[" * 600 + "]" * 600)}}).encode(),
]


@pytest.mark.parametrize("body", DEEP, ids=["list", "event"])
def test_a7_01_a_deep_body_is_stored_in_one_line_and_is_its_reader_s_dead_letter(
    site: Site, body: bytes
) -> None:
    with capture_logs() as lines:
        stored(site, body)

    assert [line["event"] for line in lines] == ["webhook_received"]
    with pytest.raises(Undecodable):
        events.parse(body)


def test_a7_02_of_two_equal_keys_receiver_and_consumer_read_the_same(site: Site) -> None:
    body = (
        b'{"type":"interaction.completed","type":"interaction.requires_action",'
        b'"data":{"id":"int_1","id":"int_2"}}'
    )

    assert stored(site, body) == events.parse(body).type


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"interaction.completed","data":{"id":"\\ud800"}}',
        b'{"type":"interaction.completed","data":{"id":"i","user_metadata":{"a":"\\ud800"}}}',
        b'{"type":"interaction.completed","data":{"id":"i"},"new":"\\udfff"}',
        b'{"type":"\\ud800"}',
        b'{"type":"interaction.completed","timestamp":"\\ud800","data":{"id":"i"}}',
    ],
    ids=["id", "metadata", "unknown", "type", "time"],
)
def test_a7_03_half_a_character_is_stored_and_is_its_reader_s_dead_letter(
    site: Site, body: bytes
) -> None:
    stored(site, body)

    with pytest.raises(Undecodable):
        events.parse(body)


@pytest.mark.parametrize(
    "kind",
    [
        "application/json;charset=UTF-8",
        "application/json; charset=bogus",
        "application/cloudevents+json",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "caf\xe9",
        "x" * 5000,
        "",
    ],
    ids=lambda kind: kind[:20] or "none",
)
def test_a7_06_any_content_type_is_accepted(site: Site, kind: str) -> None:
    more = {"Content-Type": kind} if kind else {}

    assert stored(site, BODY, **more) == "interaction.completed"


def test_a7_06_two_content_types_are_accepted(site: Site) -> None:
    twice = {"Content-Type": "text/plain", "content-type": "application/json"}

    assert stored(site, BODY, **twice) == "interaction.completed"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({**EVENT, "type": "agent.paused"}, "agent.paused"),
        ({"data": {"id": "i"}}, "unknown"),
        ({**EVENT, "type": 5}, "unknown"),
        ({**EVENT, "type": ""}, "unknown"),
        ({**EVENT, "type": "x" * 300}, "unknown"),
        ({**EVENT, "version": "v2"}, "interaction.completed"),
        ({**EVENT, "version": 2}, "interaction.completed"),
        ({**EVENT, "data": None}, "interaction.completed"),
        ({**EVENT, "data": []}, "interaction.completed"),
        ({**EVENT, "data": {}}, "interaction.completed"),
        ({**EVENT, "data": {"id": ""}}, "interaction.completed"),
        ({**EVENT, "data": {"id": 5}}, "interaction.completed"),
        ({**EVENT, "data": {"id": "../../x"}}, "interaction.completed"),
        ({**EVENT, "data": {"id": "int_1?alt=x"}}, "interaction.completed"),
        ({**EVENT, "data": {"id": "x" * 1_000_000}}, "interaction.completed"),
        ({**EVENT, **{f"new_{n}": n for n in range(50)}}, "interaction.completed"),
        ({**EVENT, "timestamp": "yesterday"}, "interaction.completed"),
    ],
    ids=lambda value: str(value)[:90].partition(", 'version'")[0] + str(value)[-70:],
)
def test_a7_07_an_event_that_this_release_does_not_know_is_accepted(
    site: Site, body: object, expected: str
) -> None:
    for _ in range(10):
        assert stored(site, json.dumps(body).encode()) == expected

    assert stored(site, BODY) == "interaction.completed"


@pytest.mark.parametrize(
    "body", [b"[]", b"[" + BODY + b"]", b'"x"', b"5", b"null", b"true", b"{}", b"", b"\xff\xfe"]
)
def test_a7_08_a_body_that_is_no_object_is_unknown(site: Site, body: bytes) -> None:
    assert stored(site, body) == "unknown"
    with pytest.raises(Undecodable):
        events.parse(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"version":"v1" ,\n  "type":"interaction.completed","data":{"n":1e2,"s":"a\\/b"}}\n',
        '{"type":"x","data":{"id":"👩‍🚀"}}'.encode(),
        b'{"type":"x","data":{"id":"\xff\xfe"}}',
    ],
    ids=["spelling", "emoji", "no text"],
)
def test_a1_03_a1_04_the_bytes_that_were_signed_are_the_bytes_that_are_stored(
    site: Site, body: bytes
) -> None:
    stored(site, body, **{"Content-Type": "application/json; charset=latin-1"})


BOMB = gzip.compress(bytes(10 << 20))


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "deflate, gzip", "identity, gzip"])
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (gzip.compress(BODY), signed(gzip.compress(BODY, mtime=0))),
        (gzip.compress(BODY), signed(BODY)),
        (BOMB, {}),
    ],
    ids=["over the compressed", "over the plain", "bomb"],
)
def test_a1_07_a_compressed_body_is_415_whoever_signed_what(
    site: Site, encoding: str, body: bytes, headers: dict[str, str]
) -> None:
    more = {"Content-Encoding": encoding}

    assert site.status(request(body, headers=headers, more=more)) == 415


def test_a1_07_an_encoding_that_is_none_is_accepted(site: Site) -> None:
    assert stored(site, BODY, **{"Content-Encoding": "identity"}) == "interaction.completed"


def test_an_id_beyond_amqp_s_255_bytes_is_stored_as_unknown(site: Site) -> None:
    headers = signed(BODY, "m" * 1000)

    assert site.status(request(BODY, headers=headers)) == 204
    assert site.publisher.messages[-1].type == "unknown"


TRACED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("metadata", "header", "kept"),
    [
        ({}, OTHER, OTHER),
        ({"traceparent": TRACED}, OTHER, TRACED),
        ({}, "x" * 55, ""),
        ({}, TRACED.upper(), ""),
    ],
    ids=["header", "body first", "nonsense", "upper case"],
)
def test_the_trace_is_that_of_the_body_or_of_a_well_formed_header(
    site: Site, metadata: dict[str, str], header: str, kept: str
) -> None:
    body = json.dumps({**EVENT, "data": {"id": "int_1", "user_metadata": metadata}}).encode()
    stored(site, body, traceparent=header)

    assert site.publisher.messages[-1].traceparent == kept
