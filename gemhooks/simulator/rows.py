"""The rows of a batch: how they are asked, and what the simulated model answers to each."""

import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gemhooks.simulator import plans
from gemhooks.simulator.clock import alphanumeric
from gemhooks.simulator.contents import Generated
from gemhooks.simulator.plans import BatchPlan
from gemhooks.simulator.scripts import CallFunctions, Fail, Say, Script, Turn, find, spoken

Json = Mapping[str, Any]

EMBEDDING_LENGTH = 8
SHUFFLED_TOGETHER = 100  # lines; as many are held in memory
BROKEN_LINE = '{"key":"cut off","response":{"candi'


@dataclass(frozen=True, slots=True)
class Row:
    """One request of a batch; *tag* is what the answer carries to be recognised by."""

    request: Json
    tag: Json


@dataclass(frozen=True, slots=True)
class Model:
    """Answers rows by the scripts; *embeds* makes it answer with vectors instead."""

    name: str
    scripts: Sequence[Script]
    plan: BatchPlan
    embeds: bool = False

    def answer(self, number: int, row: Row) -> Json:
        """The answer to *row*, which is the *number*th from 0 on."""
        text = text_of(row.request)
        turn = find(self.scripts, text).turn(0)
        if plans.every(number, self.plan.fail_every):
            turn = Fail(code=3, message="This row is invalid, as its plan says.")
        if isinstance(turn, Fail):
            details = self.plan.detailed_errors
            return {**row.tag, "error": plans.status(turn.code, turn.message, details=details)}
        answered = embedded(text) if self.embeds else generated(self.name, text, turn)
        return {**row.tag, "response": answered}

    def lines(self, rows: Iterable[Row]) -> Iterator[tuple[str, bool]]:
        """Yield the lines of a result file, and whether each is a success; in no one's order."""
        shuffled = random.Random(self.plan.rows)  # noqa: S311 - repeatable, not secret
        for window in _windows(enumerate(rows), SHUFFLED_TOGETHER):
            shuffled.shuffle(window)
            for number, row in window:
                yield self._line(number, row)

    def _line(self, number: int, row: Row) -> tuple[str, bool]:
        if plans.every(number, self.plan.malformed_every):
            return BROKEN_LINE, False
        answer = self.answer(number, row)
        is_bare = plans.every(number, self.plan.bare_every) and "response" in answer
        return json.dumps(answer["response"] if is_bare else answer), "response" in answer


def text_of(request: Json) -> str:
    """All text in a GenerateContentRequest or an EmbedContentRequest."""
    contents = request.get("contents") or request.get("content") or ()
    contents = [contents] if isinstance(contents, Mapping) else contents
    parts = [part for content in contents for part in content.get("parts", ())]
    return " ".join(str(part["text"]) for part in parts if "text" in part)


def generated(model: str, text: str, turn: Turn) -> Json:
    """A GenerateContentResponse; a word is a token here."""
    parts, said = _parts(turn)
    given, output = len(text.split()), len(said.split())
    usage = {"promptTokenCount": given, "candidatesTokenCount": output}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {
        "candidates": [candidate],
        "usageMetadata": usage | {"totalTokenCount": given + output},
        "modelVersion": model.removeprefix("models/"),
        "responseId": alphanumeric(22),
    }


def _parts(turn: Turn) -> tuple[list[Json], str]:
    if isinstance(turn, CallFunctions):
        calls = [{"name": call.name, "args": call.arguments} for call in turn.calls]
        return [{"functionCall": call} for call in calls], ""
    text = spoken(turn, ()) if isinstance(turn, Say) else ""
    return [{"text": text}], text


def embedded(text: str) -> Json:
    """An embedding that is the same for the same text."""
    digest = hashlib.sha256(text.encode()).digest()[:EMBEDDING_LENGTH]
    values = [round(byte / 255, 4) for byte in digest]
    return {"tokenCount": str(len(text.split())), "embedding": {"values": values}}


class MadeUpRows(Generated):
    """Result lines of one length, made while they are read: two gigabytes take no memory."""

    def __init__(self, plan: BatchPlan, model: str) -> None:
        super().__init__(plan.rows, plan.row_bytes)
        self._plan = plan
        answered = {**generated(model, "", Say(text="\0")), "responseId": "simulated"}
        if plan.dimensions:
            answered = {
                "tokenCount": "1",
                "embedding": {"values": vector(plan.dimensions)},
                "": "\0",
            }
        head, tail = json.dumps({"response": answered})[1:].split(json.dumps("\0")[1:-1])
        self._head, self._tail = head.encode(), tail.encode()
        # Cut for each line: joining is what a fast reader waits for.
        words = b" " if plan.dimensions else b"All work and no play. "
        self._filler = words * (plan.row_bytes // len(words) + 1)

    def failures(self) -> int:
        nth = (self._plan.fail_every, self._plan.malformed_every)
        return sum(any(plans.every(row, n) for n in nth) for row in range(self.count))

    def piece(self, number: int) -> bytes:
        if plans.every(number, self._plan.malformed_every):
            return BROKEN_LINE.encode().ljust(self.length - 1, b"-") + b"\n"
        key = b'{"key":"request_%d",' % number
        if plans.every(number, self._plan.fail_every):
            error = b'"error":{"code":3,"message":"This row is invalid, as its plan says."}}'
            return (key + error).ljust(self.length - 1) + b"\n"
        filler = self.length - len(key) - len(self._head) - len(self._tail) - 1
        return b"%b%b%b%b\n" % (key, self._head, self._filler[:filler], self._tail)


def vector(dimensions: int) -> list[float]:
    """As long as an embedding is, and its numbers as long as theirs."""
    dice = random.Random(dimensions)  # noqa: S311 - repeatable, not secret
    return [round(dice.uniform(-0.1, 0.1), 9) for _ in range(dimensions)]


def _windows(items: Iterator[tuple[int, Row]], size: int) -> Iterator[list[tuple[int, Row]]]:
    window: list[tuple[int, Row]] = []
    for item in items:
        window.append(item)
        if len(window) == size:
            yield window
            window = []
    yield window
