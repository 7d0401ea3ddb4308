"""Every sentence that a person can be told, found in the source, and what to do about it."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gemhooks import errors

ROOT = Path(__file__).parents[1]
TOLD = {"Misconfigured": 2, "Unavailable": 1}  # the exit code that goes with it
# What a module of the user's own raises while it is loaded becomes Misconfigured.
LOADED = {"TypeError": 2, "ValueError": 2}
LOADING = ("gemhooks/consumers.py", "gemhooks/handlers.py")
CODES = TOLD | LOADED

# What to do, by the file that tells: the first prefix that fits counts.
ADVICE = {
    "gemhooks/admin.py": (
        "Ports",
        "Another process listens there: give this one another `GEMHOOKS_ADMIN_PORT` (0 is none).",
    ),
    "gemhooks/cli/batches": (
        "Batches",
        "Wait for the event, or look the job up: `gemhooks jobs add ID`.",
    ),
    "gemhooks/cli/calls": (
        "Function calls",
        "`gemhooks calls list` shows which calls wait, and why.",
    ),
    "gemhooks/cli/children": (
        "Starting the parts",
        "Run it from a clone or from the image. The line of the part that ended says what it lacks.",
    ),
    "gemhooks/cli/demo": (
        "The demo",
        "Run it again; a very busy machine may need more than a minute.",
    ),
    "gemhooks/cli/dlq": (
        "Dead letters",
        "`gemhooks dlq list` shows the ids, types and reasons there are.",
    ),
    "gemhooks/cli/jobs": ("Jobs", "`gemhooks jobs list` shows what is known."),
    "gemhooks/cli/health": (
        "Health",
        "Is it the port of the process you mean (`GEMHOOKS_ADMIN_PORT`), and has that started? One that"
        " is alive but not ready waits for its broker: its log says `broker_unreachable`.",
    ),
    "gemhooks/cli/overhearing": (
        "Listening to a simulator",
        "`--simulator` must be the address that `gemhooks simulate` printed.",
    ),
    "gemhooks/cli/results": ("Stored results", "`gemhooks results list` shows what is stored."),
    "gemhooks/cli/run": (
        "What is consumed",
        "Write `@consumers.on(...)` above each handler, with a queue that is nobody else's.",
    ),
    "gemhooks/consumers": (
        "Consumers",
        "Give each queue one handler an event, and one set of rules.",
    ),
    "gemhooks/handlers": (
        "Handlers",
        "The sentence begins with the handler's file and line: let it take one argument, annotated with"
        " the event's class (or one above it).",
    ),
    "gemhooks/cli/simulate": (
        "The simulator",
        "`pip install 'gemhooks[simulator]'`; another `--port`.",
    ),
    "gemhooks/cli/trigger": (
        "Sending by hand",
        "`gemhooks trigger --help` shows the variants; `--simulator` must be the address that"
        " `gemhooks simulate` of the same release printed.",
    ),
    "gemhooks/cli/waking": (
        "Waking workers",
        "It is recorded; say it again once the broker is back.",
    ),
    "gemhooks/cli/webhook": (
        "Options of the webhook commands",
        "Add the option that the sentence names, or leave out the one that goes not with it; a secret"
        " must have one place to go to.",
    ),
    "gemhooks/cli/writing": ("Writing files", "Choose a place that this user may write to."),
    "gemhooks/cli/sending": (
        "Sending to a receiver",
        "Start the receiver, and give the URL that it listens on: `http://127.0.0.1:8080/webhooks/gemini`"
        " unless `GEMHOOKS_HOST` and `GEMHOOKS_PORT` say otherwise.",
    ),
    "gemhooks/doctor": (
        "The doctor",
        "It goes on with its other checks, and says what to do at each.",
    ),
    "gemhooks/functions": (
        "Functions",
        "Register each with `@functions.function()`, under a name of its own in its module.",
    ),
    "gemhooks/gemini/webhooks": (
        "Ids of webhooks",
        "Copy the id from `gemhooks webhook list`; what is before its last slash may be left out.",
    ),
    "gemhooks/gemini": ("Gemini", "Set `GEMINI_API_KEY`; `pip install 'gemhooks[gemini]'`."),
    "gemhooks/keys": ("Secrets", "Copy the whole secret again, `whsec_` included, or rotate it."),
    "gemhooks/signing": (
        "Secrets",
        "Copy the whole secret again, `whsec_` included, or rotate it.",
    ),
    "gemhooks/ledger": (
        "The database",
        "Look at `GEMHOOKS_DATABASE_URL`; after an upgrade, restart every process with one release.",
    ),
    "gemhooks/loading": ("Modules", "Start it from the folder of the module: `module:name`."),
    "gemhooks/queues/sqlite": (
        "The queue in a file",
        "Look at `GEMHOOKS_BROKER_URL` and at the folder's rights. A consumer's queue is there from its"
        " first start on.",
    ),
    "gemhooks/queues/rabbitmq/parameters": (
        "Connecting to RabbitMQ",
        "Mend `GEMHOOKS_BROKER_URL`: `amqp://user:password@host:5672/vhost`, where `%2F` is the virtual"
        " host `/` and odd characters of a password are written `%40`. No answer: is it started, and is"
        " the port open from here?",
    ),
    "gemhooks/queues/rabbitmq/management": (
        "RabbitMQ's management API",
        "Mend `GEMHOOKS_MANAGEMENT_URL`, with the name and password of a user who has the tag"
        " `monitoring`, or leave it unset: it is asked for the queues' arguments only. A redirect (3xx)"
        " is not followed, since the password would go along: name the API where it is.",
    ),
    "gemhooks/queues/rabbitmq/listening": (
        "Listening to RabbitMQ",
        "Start the receiver once: it makes the exchanges that are listened to.",
    ),
    "gemhooks/queues/listening": (
        "Listening to a queue in a file",
        "Start the receiver once, or go to the folder where it runs: the file's name in"
        " `GEMHOOKS_BROKER_URL` is relative to it.",
    ),
    "gemhooks/queues/connect": (
        "The broker's URL",
        "Set `GEMHOOKS_BROKER_URL` to `amqp://...`, or to `sqlite:///...` on one machine.",
    ),
    "gemhooks/queues/inspecting": (
        "Looking at a queue in a file",
        "Is the file that `GEMHOOKS_BROKER_URL` names there, and may this user read it?",
    ),
    "gemhooks/queues": (
        "RabbitMQ",
        "What is away is waited for by receiver and workers; `gemhooks doctor` tells more. A refused"
        " queue differs from what we declare: delete it when it is empty, or mend its arguments. Access"
        " that is refused: give the user its rights (configure, write, read) on `gemhooks.*`.",
    ),
    "gemhooks/tracing": ("Tracing", "`pip install 'gemhooks[tracing]'`, or leave it off."),
    "gemhooks/results": (
        "Results",
        "Look at `GEMHOOKS_RESULTS_URL`; a bucket needs its fsspec driver (`s3fs`, `gcsfs`).",
    ),
    "gemhooks/settings": (
        "Settings",
        "See the [settings](settings.md): each name, form and default.",
    ),
    "gemhooks/simulator": (
        "Scenario files",
        "See [the simulator](../simulator.md#scenario-files).",
    ),
    "gemhooks/webhooks/desired": (
        "Files of webhooks",
        "Mend the place that is named; [the file's form](../webhooks.md). `gemhooks webhook list` shows"
        " which webhooks Gemini knows.",
    ),
    "gemhooks/webhooks/wishes": (
        "What a webhook may be",
        "Gemini takes a public `https://` URL, and events of those that are listed.",
    ),
    "gemhooks/webhooks/receivers": (
        "Receivers of a webhook",
        "`GEMHOOKS_RECEIVERS` holds the URL of each receiver's admin port (9090 by default) as seen from"
        " here; without it nobody can tell whether they hold the new secret.",
    ),
    "gemhooks/webhooks/places": (
        "Places for a secret",
        "Choose a folder that this user may write to, or `--show-secret`.",
    ),
    "gemhooks/webhooks": (
        "Rotating a secret",
        "A rotation that was begun goes on with `gemhooks webhook rotate ID --resume`; only one runs at"
        " a time. What it must remember lies beside the saved secret: that folder must be writable.",
    ),
    "receiver": ("The receiver", "See [the receiver's settings](../receiver.md#settings)."),
    "workers": ("Workers", "`gemhooks workers` and `gemhooks reconcile` need no arguments."),
}


@dataclass(frozen=True, order=True)
class Told:
    """One sentence, what varies in it in angle brackets, and the file that says it."""

    file: str
    kind: str
    sentence: str

    @property
    def advice(self) -> tuple[str, str]:
        """Title and text; LookupError where nobody has written any."""
        for prefix, advice in ADVICE.items():
            if self.file.startswith(prefix):
                return advice
        raise LookupError(f"{self.file} tells people something: add it to handbook/errors.py")


def page() -> str:
    return f"""# Errors

Every command ends with one sentence on stderr: with code 2 where a person must change something
(starting again does not help), with 1 where it may go well the next time. No traceback, no secret.

## What becomes of an error

```
{_tree()}
```

For handlers: [writing consumers](../consumers.md). What the receiver answers: [its
table](../receiver.md#answers). Why dead letters are dead: `gemhooks dlq list`.

{_sections()}"""


def _tree() -> str:
    return (errors.__doc__ or "").partition("\n\n")[2].strip()


def _sections() -> str:
    by_advice: dict[tuple[str, str], list[Told]] = {}
    for told in sentences():
        by_advice.setdefault(told.advice, []).append(told)
    return "\n".join(
        f"## {title}\n\n{text}\n\n" + _table(found)
        for (title, text), found in sorted(by_advice.items())
    )


def _table(found: list[Told]) -> str:
    rows = dict.fromkeys(f"| `{each.sentence}` | {CODES[each.kind]} |\n" for each in found)
    return "| the sentence | code |\n| --- | --- |\n" + "".join(rows)


def sentences() -> list[Told]:
    files = (
        path for name in ("gemhooks", "receiver", "workers") for path in (ROOT / name).rglob("*.py")
    )
    return sorted({told for path in files for told in _told_by(path)})


def _told_by(path: Path) -> Iterator[Told]:
    file = str(path.relative_to(ROOT))
    names = CODES if file in LOADING else TOLD
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            for argument in node.args[:1]:
                sentence = _template(argument)
                if " " in re.sub("<[^>]*>", "", sentence).strip():  # more than what varies
                    yield Told(file, node.func.id, sentence)


def _template(node: ast.expr) -> str:
    """The text, with the last word of each expression for what varies."""
    if isinstance(node, ast.Constant):
        return str(node.value).replace("|", "/").replace("`", "")
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return f"<{_word(node.value)}>"
    return ""


def _word(node: ast.expr) -> str:
    words = re.findall(r"[A-Za-z]+", ast.unparse(node).rpartition("(")[2]) or ["..."]
    return str(words[-1])
