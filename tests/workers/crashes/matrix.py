"""One cell of the crash matrix: a worker dies at a step, the next one goes on, a person helps."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from gemhooks import heads, topology
from gemhooks.functions import marks
from gemhooks.functions.chains import Continuation, SendState
from gemhooks.functions.records import CallRecord, CallState
from gemhooks.functions.resuming import look_again
from gemhooks.functions.verdicts import Verdict
from gemhooks.gemini import Gemini
from gemhooks.ledger import Ledgers, open_ledger
from gemhooks.messages import Broker, Message
from gemhooks.queues.connect import connect
from gemhooks.simulator import Call, CallFunctions, Say, Script, Simulator
from tests.workers.crashes.child import Plan, live
from tests.workers.crashes.steps import Step

T = TypeVar("T")
DEADLINE = 120.0  # seconds; a busy machine
_NUMBERS = count()


@dataclass(frozen=True)
class Cell:
    """What is tried: where it dies, over which kind of function, of how many calls."""

    step: Step
    effect: str
    calls: int

    def __str__(self) -> str:
        return f"{self.step}, {self.effect}, {self.calls}"


@dataclass(frozen=True)
class Ended:
    """What came of a cell."""

    cell: Cell
    effects: Counter[str]  # lines that the functions wrote, by call
    parked: tuple[CallRecord, ...]  # calls that a person had to settle
    successors: int  # interactions that Gemini was made to start
    answered: tuple[str, ...]  # what the model was told


@dataclass
class World:
    """All that outlives the workers."""

    folder: Path
    env: dict[str, str]
    broker: Broker
    ledgers: Ledgers
    simulator: Simulator
    gemini: Gemini
    events: str
    children: list[ForkServerProcess] = field(default_factory=list)

    @property
    def effects(self) -> Path:
        return self.folder / "effects"

    def start(self, step: Step = Step.NEVER, number: int = 1) -> ForkServerProcess:
        """Begin one life of the worker."""
        plan = Plan(self.env, str(self.effects), step, number)
        child = _context().Process(target=live, args=(plan,))
        child.start()
        self.children.append(child)
        return child

    def ask(self, cell: Cell) -> str:
        """Start the interaction that will wait for the calls."""
        return self.gemini.interactions.create(
            model="m",
            input=_prompt(cell),
            background=True,
            webhook_config={"uris": [self.events], "user_metadata": marks.marked({})},
        ).id


def _script(cell: Cell) -> Script:
    calls = tuple(
        Call(name=cell.effect, arguments={"name": f"call-{number}"}) for number in range(cell.calls)
    )
    return Script(when=_prompt(cell), turns=(CallFunctions(calls=calls), Say(text="{results}")))


def _prompt(cell: Cell) -> str:
    return f"{cell.effect} {cell.calls}"


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.workers.crashes.child", "google.genai"])
    return context


@contextmanager
def world(folder: Path, database_url: str, cell: Cell) -> Iterator[World]:
    """Everything but the workers, in *folder*."""
    folder.mkdir()
    env = {
        "GEMHOOKS_BROKER_URL": f"sqlite:///{folder}/queue.db",
        "GEMHOOKS_DATABASE_URL": database_url,
        "GEMHOOKS_RESULTS_URL": f"{folder}/results",
        "GEMHOOKS_GEMINI_TIMEOUT": "2s",
        "GEMHOOKS_CONTINUE_WAIT": "1s",
        "GEMHOOKS_RETRY_SCHEDULE": " ".join(["1s"] * 30),
    }
    with (
        closing(connect(env["GEMHOOKS_BROKER_URL"], publish_timeout=10)) as broker,
        closing(open_ledger(database_url)) as ledgers,
        _listening(broker) as hook,
        Simulator(delay=0.05, scripts=[_script(cell)]) as simulator,
        closing(Gemini("key", base_url=simulator.url)) as gemini,
    ):
        broker.declare([*topology.BUILT_IN])
        here = env | {"GEMHOOKS_GEMINI_BASE_URL": simulator.url}
        made = World(folder, here, broker, ledgers, simulator, gemini, hook)
        try:
            yield made
        finally:
            for child in made.children:
                child.terminate()
            for child in made.children:
                child.join(30)


@contextmanager
def _listening(broker: Broker) -> Iterator[str]:
    """Take webhooks and queue them, as the receiver does after it verified them."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            kind = heads.type_of(body)
            message = Message(self.headers["webhook-id"], kind, body)
            broker.publisher.publish(message).result(20)
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - theirs
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run(cell: Cell, folder: Path, database_url: str) -> Ended:
    """Let one worker die at the step and a second one live; settle what it leaves to a person."""
    with world(folder / f"cell-{next(_NUMBERS)}", database_url, cell) as made:
        # Of three calls the second one: some are before the step, some after it.
        each_call = cell.step not in (
            Step.BEFORE_THE_CONTINUATION,
            Step.AFTER_THE_CONTINUATION,
            Step.BEFORE_THE_ACK,
        )
        victim = made.start(cell.step, min(2, cell.calls) if each_call else 1)
        name = made.ask(cell)
        victim.join(DEADLINE)
        assert victim.exitcode == -9, f"{cell}: the worker was not killed ({victim.exitcode})"
        made.start()
        parked = _settled_by_a_person(made, name)
        if cell.step is Step.BEFORE_THE_CONTINUATION:
            _sent_by_a_person(made, name)
        successor = _wait(lambda: _completed_successor(made, name), f"{cell}: the end")
        return Ended(
            cell,
            Counter(made.effects.read_text().split() if made.effects.exists() else ()),
            parked,
            len(made.simulator.interactions) - 1,
            _told(successor),
        )


def _settled_by_a_person(made: World, name: str) -> tuple[CallRecord, ...]:
    """Wait until it is continued or parked; say of parked calls that they did run."""

    def standing() -> tuple[CallRecord, ...] | None:
        if made.ledgers.continuations.of(name):
            return ()
        calls = made.ledgers.calls.of(name)
        at_rest = all(each.state in (CallState.DONE, CallState.UNKNOWN) for each in calls)
        unknown = tuple(each for each in calls if each.state is CallState.UNKNOWN)
        return unknown if at_rest and unknown else None

    parked = _wait(standing, "a rest")
    for each in parked:
        made.ledgers.calls.decide(each.id, Verdict.RESULT, "a person said so")
    if parked:
        _wake(made, name)
    return parked


def _sent_by_a_person(made: World, name: str) -> None:
    """Nobody can know that it was not sent: wait until it is parked, and say so."""

    def lost() -> Continuation | None:
        found = made.ledgers.continuations.of(name)
        return found if found and found.state is SendState.UNKNOWN else None

    parked = _wait(lost, "a continuation that is parked")
    made.ledgers.continuations.decide(parked.id, Verdict.RERUN)
    _wake(made, name)


def _wake(made: World, name: str) -> None:
    message = look_again(name, by="test")
    made.broker.publisher.publish(message, exchange=topology.RESULTS).result(20)


def _completed_successor(made: World, name: str) -> dict[str, Any] | None:
    found = made.ledgers.continuations.of(name)
    if found is None or found.successor_id is None:
        return None
    job = made.ledgers.jobs.get("interaction", found.successor_id)
    if job is None or job.state != "completed":
        return None
    return made.gemini.interactions.get(found.successor_id).parsed


def _told(interaction: dict[str, Any]) -> tuple[str, ...]:
    steps = interaction["steps"]
    return tuple(each["result"] for each in steps if each["type"] == "function_result")


def _wait(look: Callable[[], T | None], what: str) -> T:
    deadline = time.monotonic() + DEADLINE
    while (found := look()) is None:
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.05)
    return found


def run_all(
    cells: list[Cell], folder: Path, database_url: Callable[[Cell], str], *, at_once: int
) -> list[Ended]:
    """All cells, some at once: most of the time is waiting for leases."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda cell: run(cell, folder, database_url(cell)), cells))


def cells(calls: tuple[int, ...], effects: tuple[str, ...]) -> list[Cell]:
    """Every step with each of *calls* and *effects*."""
    base = [Cell(step, "once", 1) for step in Step if step is not Step.NEVER]
    return [replace(each, effect=e, calls=c) for each in base for e in effects for c in calls]
