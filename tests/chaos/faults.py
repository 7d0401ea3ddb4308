"""What is done to the system, in an order that a seed decides."""

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.chaos.fleet import Fleet
from tests.services.errors import ServiceError
from tests.services.postgresql import PostgresServer
from tests.services.proxy import Proxy, Way
from tests.services.rabbitmq import RabbitNode

Fault = Callable[[], None]
WATERMARK = "0.4"  # RabbitMQ's own
SETTLED = 5.0  # seconds; a node killed sooner after its start may forget a vote (RabbitMQ 3.10)


@dataclass(frozen=True)
class Places:
    """Everything that can be hurt."""

    fleet: Fleet
    node: RabbitNode
    server: PostgresServer
    to_broker: Sequence[Proxy]
    to_database: Proxy


class Faults:
    """Named faults; each hurts, waits a while, and heals what does not heal by itself."""

    def __init__(self, places: Places, chance: random.Random) -> None:
        self._places = places
        self._chance = chance
        self._broker_since = time.monotonic()

    def of_processes(self) -> dict[str, Fault]:
        return {
            "SIGKILL": lambda: self._signal(signal.SIGKILL),
            "SIGTERM": lambda: self._signal(signal.SIGTERM),
        }

    def of_networks(self) -> dict[str, Fault]:
        return {
            "cut": lambda: self._proxy().cut(),
            "refuse": self._refuse,
            "half-open": lambda: self._silence(frozenset(Way), 0.5, 4.0),
            "long half-open": lambda: self._silence(frozenset(Way), 11.0, 14.0),
            "swallowed confirms": lambda: self._silence(frozenset({Way.DOWN}), 0.5, 6.0),
            "slow link": self._slow,
            "database restart": self._places.server.restart,
            "database crash": self._crash_database,
            "database cut": self._places.to_database.cut,
            "database half-open": self._silence_database,
        }

    def of_the_broker(self) -> dict[str, Fault]:
        return {
            "broker restart": self._restart_broker,
            "broker kill -9": self._kill_broker,
            "memory alarm": self._alarm,
        }

    def _signal(self, how: signal.Signals) -> None:
        self._places.fleet.hurt(how, self._chance)

    def _proxy(self) -> Proxy:
        return self._chance.choice(self._places.to_broker)

    def _wait(self, shortest: float, longest: float) -> None:
        time.sleep(self._chance.uniform(shortest, longest))

    def _refuse(self) -> None:
        proxy = self._proxy()
        proxy.refusing = True
        proxy.cut()
        self._wait(0.2, 3.0)
        proxy.refusing = False

    def _silence(self, ways: frozenset[Way], shortest: float, longest: float) -> None:
        proxy = self._proxy()
        proxy.silent = ways
        self._wait(shortest, longest)
        proxy.silent = frozenset()

    def _silence_database(self) -> None:
        proxy = self._places.to_database
        proxy.silent = frozenset(Way)
        self._wait(0.5, 4.0)
        proxy.silent = frozenset()

    def _slow(self) -> None:
        proxy = self._proxy()
        proxy.latency = 0.1
        self._wait(1.0, 4.0)
        proxy.latency = 0.0

    def _crash_database(self) -> None:
        self._places.server.crash()
        self._wait(0.1, 2.0)
        self._places.server.start()

    def _restart_broker(self) -> None:
        self._places.node.restart()
        self._broker_since = time.monotonic()

    def _kill_broker(self) -> None:
        time.sleep(max(0.0, self._broker_since + SETTLED - time.monotonic()))
        self._places.node.kill(settled=False)
        self._wait(0.1, 2.0)
        self._places.node.start()
        self._broker_since = time.monotonic()

    def _alarm(self) -> None:
        """RabbitMQ's own tool hangs at times on a busy machine; a restart ends the alarm, too."""
        node = self._places.node
        try:
            node.ctl("set_vm_memory_high_watermark", "0.00001")
            self._wait(0.5, 4.0)
            node.ctl("set_vm_memory_high_watermark", WATERMARK)
        except ServiceError:
            self._restart_broker()


class Lane(threading.Thread):
    """Commits one fault after the other until it is stopped; lanes overlap."""

    def __init__(
        self,
        faults: dict[str, Fault],
        pauses: tuple[float, float],
        chance: random.Random,
        recover: Fault,
    ) -> None:
        """After each fault *recover* waits for what it hurt, then one of the *pauses* passes."""
        super().__init__(daemon=True)
        self._recover = recover
        self._faults, self._pauses, self._chance = faults, pauses, chance
        self._over = threading.Event()
        self.committed: Counter[str] = Counter()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._over.wait(self._chance.uniform(*self._pauses)):
                name = self._chance.choice(sorted(self._faults))
                self._faults[name]()
                self.committed[name] += 1
                self._recover()
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        """End after the fault that is under way, healed."""
        self._over.set()
        self.join()
        if self.error is not None:
            raise self.error
