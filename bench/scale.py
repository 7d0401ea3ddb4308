"""``make bench-scale``: how far one of each part goes, each alone, on private services.

Prints the table of docs/scale.md; ``--write`` puts it there.
"""

import argparse
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

from bench import pipelined, receiver, worker
from bench.processes import ROOT, environment, ours
from gemhooks import logs
from tests.services.install import ensure

PAGE = ROOT / "docs/scale.md"
BEGIN, END = "<!-- make bench-scale -->\n", "<!-- end -->\n"
IN_FLIGHT = 500
CONNECTIONS = 32


@dataclass(frozen=True)
class Line:
    """One row of the table."""

    what: str
    how: str
    seen: str


def main() -> None:
    options = _options()
    logs.configure("json", "error")
    table = render(list(measured(options)))
    os.write(1, table.encode())
    if options.write:
        PAGE.write_text(replaced(PAGE.read_text("utf-8"), table), "utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=4, help="of each run of load")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--events", type=int, default=10_000, help="of each run of a worker")
    parser.add_argument("--write", action="store_true", help="into docs/scale.md, too")
    return parser.parse_args()


def measured(options: argparse.Namespace) -> Iterator[Line]:
    """Each part in turn; nothing runs beside it but what it needs."""
    ensure("wrk")
    with worker.placed() as place:
        yield from receivers(place, options)
        yield from workers(place, options)
        yield from ledgers(place, options)


def receivers(place: worker.Place, options: argparse.Namespace) -> Iterator[Line]:
    with receiver.started(receiver.OURS, place.amqp_url, place.folder) as contender:
        rates = [
            pipelined.rate(place.amqp_url, receiver.QUEUE, IN_FLIGHT) for _ in range(options.repeat)
        ]
        how = f"confirmed publishes to one quorum queue of one node, {IN_FLIGHT} in flight"
        yield Line("RabbitMQ", how, f"{median(rates):,.0f}/s")
        runs = [
            receiver.one_run(contender, place.amqp_url, place.folder, CONNECTIONS, options.seconds)
            for _ in range(options.repeat)
        ]
    cpu = median(run.cpu for run in runs)
    p99 = median(run.load.p99 for run in runs)
    how = f"one process, verified and confirmed requests, {CONNECTIONS} connections"
    seen = f"{median(run.load.rate for run in runs):,.0f}/s; 99 % within {p99:.0f} ms"
    yield Line("receiver", how, f"{seen}; {cpu:.0f} µs of CPU each")


def workers(place: worker.Place, options: argparse.Namespace) -> Iterator[Line]:
    for contender in worker.contenders(place):
        if contender.name in (worker.OURS, worker.ON_POSTGRESQL):
            runs = [worker.one_run(place, contender, options.events) for _ in range(options.repeat)]
            ledger = "ledger off" if contender.name == worker.OURS else "ledger on PostgreSQL"
            how = f"one process, a handler that does nothing, {ledger}"
            seen = f"{median(run.rate for run in runs):,.0f}/s"
            cpu = median(run.cpu_us for run in runs)
            yield Line("worker", how, f"{seen}; {cpu:.0f} µs of CPU each")


def ledgers(place: worker.Place, options: argparse.Namespace) -> Iterator[Line]:
    for count in (1, 2, 4):
        rates = [
            ledger_rate(place.postgres_url, count, options.seconds) for _ in range(options.repeat)
        ]
        how = f"claim and done of an event, {count} process{'es' * (count > 1)} of 16 threads"
        yield Line("PostgreSQL", how, f"{median(rates):,.0f}/s")


def ledger_rate(url: str, count: int, seconds: int) -> float:
    """Events per second of *count* processes together."""
    started = [ledger_process(url, seconds) for _ in range(count)]
    for each in started:
        assert each.stdout  # noqa: S101 - for the type checker
        each.stdout.readline()  # it is ready
    with ThreadPoolExecutor(count) as pool:
        return sum(pool.map(lambda each: float(each.communicate("go\n")[0]), started))


def ledger_process(url: str, seconds: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        ours("bench.ledger_load", url, str(seconds)),
        cwd=ROOT,
        env=environment({}),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def render(lines: list[Line]) -> str:
    rows = "".join(f"| {line.what} | {line.how} | {line.seen} |\n" for line in lines)
    when = f"On {os.cpu_count()} cores, all parts and their load on one machine, {today()}:\n\n"
    return f"{when}| part | what it did | seen |\n| --- | --- | --- |\n{rows}"


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def replaced(page: str, table: str) -> str:
    """*page* with *table* between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table}{END}{after}"


if __name__ == "__main__":
    main()
