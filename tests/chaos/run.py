"""One chaos run: start everything, hurt it, heal it, wait, count."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from gemhooks.simulator import Simulator
from gemhooks.simulator import faults as misbehaviour
from tests.chaos import books
from tests.chaos.faults import Faults, Lane, Places
from tests.chaos.fleet import Fleet, Role, python_path
from tests.chaos.load import SCRIPTS, Load
from tests.services.ports import free_port
from tests.services.postgresql import PostgresServer
from tests.services.proxy import Proxy
from tests.services.rabbitmq import RabbitNode
from tests.services.waiting import eventually

RETRIES = "1s 1s 1s 1s 5s 5s 5s 5s 5s 15s 15s 15s 15s 15s 60s 60s"  # outages dead-letter nothing
LONGEST_STANDSTILL = 100.0  # seconds without progress after the last fault: it will not come
GAP = 1.0  # seconds, at least, between two looks at the books
GAPS = 10  # times as long as a look takes, since the simulator answers from the same process
SILENCE = 2.0  # seconds without a delivery: longer than the simulator takes for anything


@dataclass(frozen=True)
class Plan:
    seconds: float
    seed: int
    rate: float  # interactions a second
    broker_pauses: tuple[float, float] = (10.0, 40.0)  # seconds between two faults of the broker


@dataclass
class Report:
    plan: Plan
    faults: Counter[str]
    outcomes: Counter[str]
    books: books.Books
    nonsense: set[str]
    wrongs: Counter[str] = field(default_factory=Counter[str])

    @property
    def line(self) -> str:
        book = self.books
        handled = sum(each.key in book.handled for each in book.accepted)
        return (
            f"chaos: seed {self.plan.seed}, {self.plan.seconds:g} s,"
            f" {sum(self.faults.values())} faults: sent {len(book.sent)},"
            f" accepted {len(book.accepted)}, handled {handled},"
            f" retried {self.outcomes['retry'] + self.outcomes['wait']},"
            f" dead-lettered {len(book.dead)}, lost {len(book.lost)},"
            f" effects {len(book.charges)}, effects doubled {len(book.doubled)},"
            f" outcome unknown {len(book.parked)}"
        )

    @property
    def complaints(self) -> list[str]:
        """All that must not be; empty where every promise was kept."""
        book = self.books
        wrong = [f"{count} x {what}" for what, count in self.wrongs.items()]
        wrong += [f"lost: {each}" for each in book.lost]
        wrong += [f"effect doubled: {each}" for each in book.doubled]
        wrong += [f"nobody heard of {each}" for each in book.unheard]
        wrong += [f"handled twice without a crash: {each}" for each in book.twice_by_the_living]
        unasked = book.dead - self.nonsense
        wrong += [f"dead-lettered without need: {each}" for each in unasked]
        return wrong


def run(plan: Plan, node: RabbitNode, server: PostgresServer, folder: Path) -> Report:
    chance = random.Random(plan.seed)
    with ExitStack() as stack:
        amqp_url = stack.enter_context(node.vhost())
        database_url = stack.enter_context(server.database())
        to_broker = [stack.enter_context(Proxy(node.amqp_port)) for _ in range(2)]
        to_database = stack.enter_context(Proxy(server.port))
        receiver_port = free_port()
        simulator = stack.enter_context(
            Simulator(
                delay=0.05,
                retry_base=0.1,
                max_attempts=40,  # a webhook of which one delivery failed for good is disabled
                scripts=SCRIPTS,
                faults=misbehaviour.Faults(
                    duplicate_rate=0.05, bad_signature_rate=0.02, shuffle=0.3, seed=plan.seed
                ),
            )
        )
        secret = simulator.subscribe(f"http://127.0.0.1:{receiver_port}/webhooks/gemini")
        env = {
            "GEMHOOKS_DATABASE_URL": through(database_url, to_database),
            "GEMHOOKS_RESULTS_URL": str(folder / "results"),
            "GEMHOOKS_GEMINI_BASE_URL": simulator.url,
            "GEMINI_API_KEY": "chaos",
            "GEMINI_WEBHOOK_SECRET": secret,
            "GEMHOOKS_PORT": str(receiver_port),
            "GEMHOOKS_LOG_FORMAT": "json",
            "GEMHOOKS_RETRY_SCHEDULE": RETRIES,
            "GEMHOOKS_LEASE": "3s",
            "GEMHOOKS_CONTINUE_WAIT": "10s",
            "GEMHOOKS_GEMINI_TIMEOUT": "5s",
            "GEMHOOKS_FUNCTIONS": "tests.chaos.effects:functions",
            "GEMHOOKS_FUNCTIONS_FOR": "all",
            "CHAOS_CHARGES": str(folder / "charges"),
            "CHAOS_HEARD": str(folder / "heard"),
            "PYTHONPATH": python_path(),
        }
        fleet = Fleet(roles(env, amqp_url, to_broker), folder, chance)
        stack.enter_context(fleet)
        eventually(fleet.is_ready, why=f"everything is ready: see {folder}")
        load = Load(simulator, plan.rate, random.Random(plan.seed + 1))
        committed = hurt(plan, Places(fleet, node, server, to_broker, to_database), load)
        settled = drain(simulator, amqp_url, database_url, folder, fleet)
        return Report(plan, committed, books.outcomes(folder), settled, load.nonsense, fleet.wrongs)


def roles(env: dict[str, str], amqp_url: str, to_broker: list[Proxy]) -> list[Role]:
    """One receiver, two workers and two consumers; each side has a way of its own to the broker."""
    near, far = ({**env, "GEMHOOKS_BROKER_URL": through(amqp_url, each)} for each in to_broker)
    consume = ("consume", "effects:consumers")
    return [
        Role("receiver", "receiver", (), near, free_port()),
        Role("worker-1", "workers", (), near, free_port()),
        Role("worker-2", "workers", (), far, free_port()),
        Role("consumer-1", "gemhooks", consume, near, free_port()),
        Role("consumer-2", "gemhooks", consume, far, free_port()),
    ]


def through(url: str, proxy: Proxy) -> str:
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{proxy.port}"))


def hurt(plan: Plan, places: Places, load: Load) -> Counter[str]:
    """Load and faults at once; when it returns, everything is healed but nothing is settled."""
    lanes = list(lanes_of(plan, places))
    load.start()
    for lane in lanes:
        lane.start()
    end = time.monotonic() + plan.seconds
    while time.monotonic() < end and not any(lane.error for lane in lanes):
        time.sleep(0.2)
    for lane in lanes:
        lane.stop()
    load.stop()
    return sum((lane.committed for lane in lanes), Counter())


def lanes_of(plan: Plan, places: Places) -> Iterator[Lane]:
    """The order within a lane comes from the seed; how lanes meet is up to the machine."""
    chances = [random.Random(plan.seed * 10 + number) for number in range(3)]
    faults = [Faults(places, chance) for chance in chances]
    recover = places.fleet.recover
    yield Lane(faults[0].of_processes(), (0.5, 4.0), chances[0], lambda: None)
    yield Lane(faults[1].of_networks(), (0.3, 3.0), chances[1], recover)
    yield Lane(faults[2].of_the_broker(), plan.broker_pauses, chances[2], recover)


def drain(
    simulator: Simulator, amqp_url: str, database_url: str, folder: Path, fleet: Fleet
) -> books.Books:
    """Wait until nothing is under way any more, as long as there is progress; then count."""
    best, since = -1, time.monotonic()
    while True:
        began = time.monotonic()
        found = count(simulator, amqp_url, database_url, folder, fleet)
        if is_settled(found) and is_quiet(simulator):
            return found
        if found.progress > best:
            best, since = found.progress, time.monotonic()
        if time.monotonic() - since > LONGEST_STANDSTILL:
            return found
        time.sleep(max(GAP, GAPS * (time.monotonic() - began)))


def is_settled(found: books.Books) -> bool:
    return not found.lost and not found.unheard and found.sent == found.accepted


def is_quiet(simulator: Simulator) -> bool:
    """Every interaction has told its end, and nothing was sent for a while."""
    busy = any(each.status == "in_progress" for each in simulator.interactions)
    attempts = simulator.attempts
    return not busy and (not attempts or time.time() - attempts[-1].at > SILENCE)


def count(
    simulator: Simulator, amqp_url: str, database_url: str, folder: Path, fleet: Fleet
) -> books.Books:
    return books.open_books(
        simulator.attempts,
        database_url,
        dead=books.dead_letters(amqp_url),
        charges=folder / "charges",
        heard=folder / "heard",
        killed=fleet.killed,
    )


@contextmanager
def private_services() -> Iterator[tuple[RabbitNode, PostgresServer]]:
    with RabbitNode() as node, PostgresServer() as server, suppress(KeyboardInterrupt):
        yield node, server
