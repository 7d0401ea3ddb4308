"""The contract against AsyncAPI's own schema: ``make test-asyncapi``, since npm fetches that."""

import copy
from typing import Any

import orjson
import pytest
import yaml
from jsonschema import Draft7Validator

from tests.integration.processes import ROOT

SCHEMAS = ROOT / ".work" / "asyncapi" / "node_modules" / "@asyncapi" / "specs" / "schemas"


@pytest.fixture
def written() -> Any:
    return yaml.safe_load((ROOT / "docs" / "reference" / "asyncapi.yaml").read_text("utf-8"))


def complaints(document: Any) -> list[str]:
    schema = orjson.loads((SCHEMAS / f"{document['asyncapi']}.json").read_bytes())
    return [error.message for error in Draft7Validator(schema).iter_errors(document)]


def test_what_is_written_is_asyncapi(written: Any) -> None:
    assert complaints(written) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("operations", "receiveEvents", "action"), "listen"),
        (("channels", "events", "bindings", "amqp", "exchange", "type"), "quorum"),
        (("info", "version"), None),
    ],
)
def test_the_schema_refuses_what_is_none(written: Any, place: tuple[str, ...], value: Any) -> None:
    wrong = node = copy.deepcopy(written)
    for name in place[:-1]:
        node = node[name]
    node[place[-1]] = value

    assert complaints(wrong)
