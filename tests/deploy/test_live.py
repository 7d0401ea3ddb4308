"""A real Prometheus scrapes real processes under load: every panel and every alert has its data."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.stack import ShippedNode, Stack, filled, running
from tests.deploy.test_metrics import BOARDS, panels, rules
from tests.services.postgresql import Database
from tests.services.waiting import comes_true, eventually

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0  # seconds
WINDOW = 10.0  # seconds of data that a rate needs, and that a panel shows at least
LATEST = 60.0  # seconds; a busy machine misses a scrape now and then


@pytest.fixture(scope="module")
def own_node() -> Iterator[ShippedNode]:
    """A RabbitMQ that boots with the shipped file and plugins."""
    with ShippedNode() as node:
        yield node


@pytest.fixture(scope="module")
def stack(
    own_node: ShippedNode,
    postgres_server: Database,
    prometheus: Path,  # installed before the first test, if need be
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    postgres_server.start()
    with (
        own_node.vhost() as amqp_url,
        postgres_server.database() as database_url,
        running(folder, own_node, amqp_url, database_url) as stack,
    ):
        eventually(lambda: _has_moved(stack), seconds=300, why="functions and batches ended")
        yield stack


def _has_moved(stack: Stack) -> bool:
    wanted = ("gemhooks_function_calls_total", "gemhooks_batch_rows_total", "gemhooks_tokens_total")
    looked = stack.query("gemhooks_webhook_secret_expires_timestamp_seconds")
    return bool(looked) and all(
        stack.query(f"sum(rate({each}[{WINDOW:.0f}s])) > 0") for each in wanted
    )


def test_everything_is_scraped(stack: Stack) -> None:
    jobs = {
        "receiver",
        "workers",
        "reconciler",
        "rabbitmq",
        "rabbitmq-queues",
        "prometheus",
        "ensure",
    }

    def scraped() -> set[str]:  # a busy machine misses one now and then
        found = stack.query(f"max_over_time(up[{LATEST:.0f}s]) == 1")
        return {each["metric"]["job"] for each in found}

    targets = stack.api("targets?state=active")["activeTargets"]
    assert {each["labels"]["job"] for each in targets} == jobs
    eventually(lambda: scraped() == jobs, why=f"{jobs} are scraped")


def test_every_query_of_every_panel_returns_data(stack: Stack) -> None:
    missing: list[str] = []

    def is_complete() -> bool:  # a late scrape leaves a rate one point
        missing[:] = without_data(stack)
        return not missing

    assert comes_true(is_complete, PATIENCE), missing


def without_data(stack: Stack) -> list[str]:
    return [
        f"{board.stem} / {panel['title']}: {each['expr']}"
        for board in BOARDS
        for panel in panels(board)
        for each in panel["targets"]
        if not _numbers(stack.query(filled(each["expr"]), seconds=WINDOW))
    ]


def _numbers(series: list[dict[str, Any]]) -> list[float]:
    return [float(value) for each in series for _, value in each["values"] if value != "NaN"]


def test_every_alert_looks_at_series_that_are_there(stack: Stack) -> None:
    used = {
        name
        for rule in rules()
        for name in re.findall(r"\b(?:gemhooks|rabbitmq)_\w+|\bup\b", rule["expr"])
    }

    assert [name for name in sorted(used) if not stack.query(name, seconds=LATEST)] == []
    loaded = stack.api("rules")["groups"][0]["rules"]
    assert [each["name"] for each in loaded] == [rule["alert"] for rule in rules()]
    eventually(lambda: healths(stack) == {"ok"}, why="each is evaluated")


def healths(stack: Stack) -> set[str]:
    return {each["health"] for each in stack.api("rules")["groups"][0]["rules"]}


def test_the_variable_of_the_consumers_dashboard_has_the_queues(stack: Stack) -> None:
    wanted = {"gemhooks.interactions", "gemhooks.functions", "gemhooks.batches"}
    values = "label/queue/values?match[]=gemhooks_messages_total"

    eventually(lambda: wanted <= set(stack.api(values)), why="each queue's messages are scraped")


def test_series_are_few_and_named_by_us(stack: Stack) -> None:
    """The load holds bad signatures, failures and functions; its ids and words become no labels."""
    for role in ("receiver", "workers", "reconciler"):
        counts = f'count({{job="{role}",__name__=~"gemhooks_.+"}})'
        (found,) = stack.query(counts, seconds=LATEST)
        assert max(float(count) for _, count in found["values"]) < 1000, role


def test_pictures_are_drawn_where_they_are_wanted(stack: Stack, tmp_path: Path) -> None:
    """`make pictures` draws those of the docs, from a longer run."""
    from tests.deploy import pictures  # noqa: PLC0415 - matplotlib takes seconds to import

    folder = Path(os.environ.get("GEMHOOKS_TEST_PICTURES") or tmp_path)
    seconds = float(os.environ.get("GEMHOOKS_TEST_PICTURES_SECONDS") or WINDOW)
    eventually(lambda: pictures.age(stack) >= seconds, seconds=seconds + 60)
    for board in BOARDS:
        drawn = pictures.draw(board, stack, folder, seconds=seconds)
        assert drawn.stat().st_size > 20_000
