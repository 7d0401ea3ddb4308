"""The ledger on both databases."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gemhooks.ledger import Ledgers, open_ledger

LEASE = 300.0  # seconds; longer than any test, however busy the machine


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """Give the URL of an empty database."""
    name = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    found: str = request.getfixturevalue(name)
    return found


@pytest.fixture
def ledgers(url: str) -> Iterator[Ledgers]:
    opened = open_ledger(url, lease=LEASE)
    yield opened
    opened.close()


@pytest.fixture
def others(url: str) -> Iterator[Ledgers]:
    """Give the same database as another process would have it."""
    opened = open_ledger(url, lease=LEASE)
    yield opened
    opened.close()
