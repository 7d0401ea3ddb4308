"""Operations by name and by the list, raw."""

import json
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import pytest

from gemhooks.errors import NotYet, Refused, Retry
from gemhooks.gemini import rest as rest_module
from gemhooks.gemini.operations import MOST_PAGES, Operations
from gemhooks.gemini.rest import Rest
from tests.gemhooks.gemini.scripted import ScriptedServer


@pytest.fixture
def operations(server: ScriptedServer) -> Iterator[Operations]:
    with closing(Rest("key", base_url=server.url, timeout=2.0)) as rest:
        yield Operations(rest)


def answer(server: ScriptedServer, body: Any) -> None:
    server.answer(200, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("batches/b1", "/v1/batches/b1"),
        ("models/veo/operations/o1", "/v1/models/veo/operations/o1"),
        ("batches/a?b=c#d", "/v1/batches/a%3Fb%3Dc%23d"),
    ],
)
def test_an_operation_is_read_whole_under_its_name(
    server: ScriptedServer, operations: Operations, name: str, path: str
) -> None:
    answer(server, {"name": name, "done": True, "error": {"code": 3}})

    assert operations.get(name)["error"] == {"code": 3}
    assert server.seen[0][1] == path


@pytest.mark.parametrize("body", [None, [], "", 5, {}, {"name": "batches/other"}, {"name": None}])
def test_another_answer_than_ours_is_asked_for_again(
    server: ScriptedServer, operations: Operations, body: Any
) -> None:
    answer(server, body)

    with pytest.raises(Retry, match="malformed"):
        operations.get("batches/b1")


@pytest.mark.parametrize(
    ("name", "advice"), [("batches/b1", True), ("models/veo/operations/o1", False)]
)
def test_a_batch_with_too_much_inline_is_refused_with_what_to_do(
    server: ScriptedServer,
    operations: Operations,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    *,
    advice: bool,
) -> None:
    monkeypatch.setattr(rest_module, "LARGEST_ANSWER", 10)
    answer(server, {"name": name, "done": True})

    with pytest.raises(Refused, match="larger than") as caught:
        operations.get(name)

    assert ("input file" in str(caught.value)) is advice


def test_an_operation_that_is_not_there_is_not_yet(
    server: ScriptedServer, operations: Operations
) -> None:
    server.answer(404, b"{}")

    with pytest.raises(NotYet):
        operations.get("batches/b1")


def test_a_list_is_read_to_its_last_page(server: ScriptedServer, operations: Operations) -> None:
    answer(server, {"operations": [{"name": "batches/1"}, None], "nextPageToken": "a b"})
    answer(server, {"operations": 5, "nextPageToken": "c"})
    answer(server, {"operations": [{"name": "batches/2"}]})

    assert [each["name"] for each in operations.list("batches")] == ["batches/1", "batches/2"]
    assert "pageToken=a+b" in server.seen[1][1]


def test_a_list_without_an_end_is_left(server: ScriptedServer, operations: Operations) -> None:
    for number in range(MOST_PAGES + 1):
        answer(
            server, {"operations": [{"name": f"batches/{number}"}], "nextPageToken": f"{number}"}
        )

    assert len(list(islice(operations.list("batches"), 1000))) == MOST_PAGES


@pytest.mark.parametrize("body", [None, [], "x"])
def test_a_page_that_is_none_is_asked_for_again(
    server: ScriptedServer, operations: Operations, body: Any
) -> None:
    answer(server, body)

    with pytest.raises(Retry, match="malformed"):
        list(operations.list("batches"))
