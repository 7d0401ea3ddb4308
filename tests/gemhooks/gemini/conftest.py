from collections.abc import Iterator

import pytest

from tests.gemhooks.gemini.scripted import ScriptedServer, serving


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    yield from serving("127.0.0.1")


@pytest.fixture
def elsewhere() -> Iterator[ScriptedServer]:
    yield from serving("127.0.0.2")
