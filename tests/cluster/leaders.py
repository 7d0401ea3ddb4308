"""The leader of each queue is killed under load: nothing is lost, nothing waits for a person."""

import itertools
import queue
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit, urlunsplit

import pytest
import urllib3

from gemhooks import topology
from gemhooks.errors import PublishFailed
from gemhooks.messages import Delivery, Message
from gemhooks.queues.rabbitmq import RabbitBroker
from tests.services.errors import ServiceError
from tests.services.proxy import Proxy
from tests.services.rabbitmq import RabbitNode
from tests.services.waiting import wait_until

NODES = 3
WORK = topology.Queue("gemhooks.cluster", ((topology.EVENTS, "cluster.#"),))
WAITING = topology.retry_name(5)
VICTIMS = (WORK.name, WAITING, WORK.dead_letters, topology.UNROUTED)
CALM = 3.0  # seconds of load between two kills


@dataclass
class Cluster:
    nodes: list[RabbitNode]
    entrance: Proxy  # as a load balancer: to a node that runs

    @property
    def url(self) -> str:
        parts = urlsplit(self.nodes[0].amqp_url)
        user = parts.netloc.rpartition("@")[0]
        return urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{self.entrance.port}"))

    def leader_of(self, name: str) -> RabbitNode:
        """Asked of each node in turn: one of them may be the one that is gone."""
        vhost = quote("/", safe="")
        for node in self.running():
            with suppress(ServiceError, urllib3.exceptions.HTTPError):
                told = node.api("GET", f"/api/queues/{vhost}/{quote(name, safe='')}")
                return next(each for each in self.nodes if each.name == told.get("leader"))
        raise ServiceError(f"nobody knows the leader of {name}")

    def running(self) -> list[RabbitNode]:
        return [node for node in self.nodes if node.running]

    def kill(self, node: RabbitNode) -> None:
        node.kill(settled=False)
        self.entrance.target = self.running()[0].amqp_port
        self.entrance.cut()

    def bring_back(self, node: RabbitNode) -> None:
        node.start()
        wait_until(self.is_whole, "all nodes in the cluster", seconds=120)

    def is_whole(self) -> bool:
        found = self.running()[0].api("GET", "/api/nodes?columns=name,running")
        return sum(bool(each.get("running")) for each in found) == NODES


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        first = stack.enter_context(RabbitNode())
        others = [stack.enter_context(RabbitNode(join=first)) for _ in range(NODES - 1)]
        entrance = stack.enter_context(Proxy(first.amqp_port))
        made = Cluster([first, *others], entrance)
        wait_until(made.is_whole, "all nodes in the cluster", seconds=120)
        yield made


@dataclass
class Work:
    """A publisher and a consumer that go on whatever happens, and count."""

    broker: RabbitBroker
    confirmed: set[str] = field(default_factory=set[str])
    handled: Counter[str] = field(default_factory=Counter[str])
    longest_gap: float = 0.0
    over: threading.Event = field(default_factory=threading.Event)  # nothing more is published
    ended: threading.Event = field(default_factory=threading.Event)  # nor handled

    def publish(self) -> None:
        last = time.monotonic()
        for number in itertools.count():
            if self.over.is_set():
                return
            with suppress(PublishFailed):
                message = Message(f"msg_{number}", "cluster.x", b"{}")
                self.broker.publish(message).result(30)
                self.confirmed.add(message.id)
                self.longest_gap = max(self.longest_gap, time.monotonic() - last)
                last = time.monotonic()

    def handle(self, delivery: Delivery) -> None:
        """Every third takes the way over the retry ladder."""
        message = delivery.message
        if message.attempt == 1 and int(message.id.removeprefix("msg_")) % 3 == 0:
            delivery.later(message.next_attempt(), after=4.0)
            return
        self.handled[message.id] += 1
        delivery.ack()


@pytest.mark.timeout(900)
def test_killing_each_queues_leader_loses_nothing(cluster: Cluster) -> None:
    with closing(RabbitBroker(cluster.url, declare=[WORK])) as broker:
        wait_until(broker.is_ready, "the broker is ready", seconds=60)
        broker.declare([WORK])
        work = Work(broker)
        taken: queue.SimpleQueue[Delivery] = queue.SimpleQueue()
        broker.consume(WORK.name, taken.put, prefetch=50)
        threads = [
            threading.Thread(target=work.publish),
            threading.Thread(target=serve, args=(work, taken)),
        ]
        for thread in threads:
            thread.start()
        try:
            for name in VICTIMS:
                time.sleep(CALM)
                leader = cluster.leader_of(name)
                cluster.kill(leader)
                time.sleep(CALM)
                cluster.bring_back(leader)
            time.sleep(CALM)
            work.over.set()
            threads[0].join()
            wait_until(lambda: work.confirmed <= set(work.handled), "all are handled", seconds=120)
        finally:
            work.over.set()
            work.ended.set()
            for thread in threads:
                thread.join()

    twice = sum(count > 1 for count in work.handled.values())
    print(  # noqa: T201 - what `make test-cluster ARGS=-s` is asked for
        f"\ncluster: {len(VICTIMS)} leaders killed, {len(work.confirmed)} confirmed, lost 0,"
        f" seen again {twice}, longest gap of confirms {work.longest_gap:.2f} s"
    )
    assert len(work.confirmed) > 100


def serve(work: Work, taken: "queue.SimpleQueue[Delivery]") -> None:
    while not work.ended.is_set():
        with suppress(queue.Empty):
            work.handle(taken.get(timeout=0.2))
