"""Our side: receivers, broker and queues, database, results store."""

import uuid
from collections.abc import Iterator, Sequence

from gemhooks import topology
from gemhooks.doctor.findings import Finding, green, red, skipped, yellow
from gemhooks.errors import Unavailable
from gemhooks.ledger import inspecting as ledger
from gemhooks.queues import inspecting as queues
from gemhooks.queues.states import Inspection, QueueState
from gemhooks.results.store import opened
from gemhooks.webhooks.places import Held
from gemhooks.webhooks.receivers import Counts, Receivers

START = "make up (or start receiver and workers): they make what is missing"


def look_at_held(held: Sequence[Held]) -> Iterator[Finding]:
    """The secrets that the settings here name, each as logs and metrics call it."""
    if not held:
        yield skipped("held", "no webhook secret is set here")
    for each in held:
        where = f", in {each.path}" if each.path else ""
        yield green("held", f"a webhook secret, {each.fingerprint}{where}")


def look_at_receivers(receivers: Receivers) -> Iterator[Finding]:
    """Ready or not, and whether what comes is refused."""
    if unready := receivers.unready():
        yield red("receiver", unready, "start it, or name it: --receiver URL, GEMHOOKS_RECEIVERS")
        return
    for url, counts in zip(receivers.urls, receivers.look(), strict=True):
        yield _refusals(url, counts)


def _refusals(url: str, counts: Counts) -> Finding:
    accepted, refused = counts.known + counts.unknown, sum(counts.refused.values())
    keys = ", ".join(sorted(counts.keys)) or "no key yet"
    text = f"{url} is ready, checks with {keys}; {accepted:.0f} accepted, {refused:.0f} refused"
    if not refused:
        return green("receiver", text)
    reasons = ", ".join(f"{count:.0f} {reason}" for reason, count in counts.refused.items())
    if accepted:
        return yellow("receiver", f"{text} ({reasons})", "see the lines `secrets` and `clock`")
    return red("receiver", f"{text} ({reasons})", "see `secrets`: what it holds signs nothing")


def look_at_broker(url: str, names: Sequence[str], management_url: str) -> Iterator[Finding]:
    """Exchanges, queues, arguments, consumers, dead letters; nothing is declared."""
    found = queues.inspect(url, names, management_url=management_url)
    yield _topology(found)
    for sentence in found.different:
        yield red("broker", sentence, "delete it while it is empty, then start the receiver again")
    if not found.arguments_checked:
        yield skipped("broker", "arguments are not compared: set GEMHOOKS_MANAGEMENT_URL")
    if found.processes == 0:
        yield yellow("queues", "no process consumes on this machine", "gemhooks workers")
    for name in names:
        yield from _queue(name, found)
    if waiting := found.queues.get(topology.UNROUTED):
        yield _unrouted(waiting)


def _topology(found: Inspection) -> Finding:
    if found.missing:
        return red("broker", f"missing: {', '.join(found.missing)}", START)
    return green("broker", "it answers; all exchanges and queues are there")


def _queue(name: str, found: Inspection) -> Iterator[Finding]:
    state = found.queues.get(name)
    if state is None:
        return  # said to be missing above
    if state.consumers is None:
        many = f" of {found.processes} consuming processes" if found.processes else ""
        yield green("queues", f"{name}: {state.messages} waiting{many}")
    elif state.consumers:
        yield green("queues", f"{name}: {state.consumers} consumers, {state.messages} waiting")
    else:
        paint = red if state.messages else yellow
        text = f"{name}: no consumer, {state.messages} waiting"
        yield paint("queues", text, "gemhooks workers, or your own gemhooks consume")
    dead = found.queues.get(topology.dead_letters(name))
    if dead and dead.messages:
        text = f"{name}: {dead.messages} dead letters"
        yield yellow("queues", text, f"gemhooks dlq list --queue {name}")


def _unrouted(state: QueueState) -> Finding:
    text = f"{topology.UNROUTED}: {state.messages} that nobody takes; pings end here too"
    if state.messages > topology.UNROUTED_MAX_LENGTH // 2:
        return red("queues", text, "bind a consumer, or purge: the oldest are about to be dropped")
    return green("queues", text)


def look_at_database(url: str) -> Iterator[Finding]:
    state = ledger.inspect(url)
    if state is ledger.State.CURRENT:
        yield green("database", "it answers, with this release's tables")
    elif state is ledger.State.NEWER:
        yield red("database", "another release made its tables", "run that release, or a newer one")
    elif state is ledger.State.READ_ONLY:
        text = "it answers, and takes no write: nothing can be handled"
        yield red("database", text, "GEMHOOKS_DATABASE_URL must lead to the primary")
    else:
        yield yellow("database", f"it answers; its tables are {state.value}", START)


def look_at_results(url: str) -> Iterator[Finding]:
    """By a file that is written, read and removed."""
    files, root = opened(url)
    try:
        path, token = f"{root}/.doctor-{uuid.uuid4().hex}", uuid.uuid4().bytes
        files.makedirs(root or "/", exist_ok=True)
        files.pipe_file(path, token)
        same = files.cat_file(path) == token
        files.rm_file(path)
    except Exception as error:  # drivers raise what they like, and may name the password
        raise Unavailable(f"the place can't be written ({type(error).__name__})") from None
    if same:
        yield green("results", "a file was written, read and removed")
    else:
        yield red(
            "results", "what was written was not read again", "see to the store's consistency"
        )
