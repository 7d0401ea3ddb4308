"""The life of a batch: pending, running, ended; its rows are answered at the end."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from gemhooks.simulator import batch as batches
from gemhooks.simulator import files, plans
from gemhooks.simulator.announcer import Announcer
from gemhooks.simulator.batch import RUNNING, Batch, BatchRequest, InputConfig
from gemhooks.simulator.clock import rfc3339
from gemhooks.simulator.contents import Content
from gemhooks.simulator.files import File
from gemhooks.simulator.plans import BatchPlan
from gemhooks.simulator.refusals import Refusal, invalid
from gemhooks.simulator.rows import MadeUpRows, Model, Row
from gemhooks.simulator.schedule import Schedule
from gemhooks.simulator.state import State

Change = Callable[[Batch], Batch]

ANNOUNCED = frozenset({"succeeded", "failed", "expired", "cancelled"})
JSONL = "application/jsonl"


class BatchJobs:
    def __init__(
        self, state: State, schedule: Schedule, announcer: Announcer, delay: float
    ) -> None:
        self._state = state
        self._schedule = schedule
        self._announcer = announcer
        self._delay = delay

    def create(self, model: str, request: BatchRequest, size: int, *, embeds: bool) -> Batch:
        """Raises a Refusal if the request has no rows, or its file is missing."""
        plan = plans.find(self._state.plans.batches, (request.display_name, model), BatchPlan())
        self._check(request.input_config, plan)
        batch = Batch(request, model, embeds, plan)
        self._state.batches.put(batch.id, batch, size)
        if plan.outcome != "stuck":
            delay = self._delay + plan.delay
            self._schedule.after(delay / 2, lambda: self._run(batch.id))
            self._schedule.after(delay, lambda: self._end(batch.id))
        return batch

    def cancel(self, batch_id: str) -> None:
        """Raises a Refusal if it has ended."""
        cancelled = self._change(batch_id, lambda batch: ended(batch, "cancelled"))
        if cancelled is None:
            raise Refusal(400, "The batch has ended already.", status="FAILED_PRECONDITION")
        self._announce(cancelled)

    def _check(self, given: InputConfig, plan: BatchPlan) -> None:
        if (given.file_name is None) == (given.requests is None):
            raise invalid("Exactly one of 'fileName' and 'requests' is required.")
        if given.file_name is not None and not plan.rows:
            self._input(given.file_name)

    def _input(self, name: str) -> File:
        if file := self._state.files.find(name.removeprefix("files/")):
            return file
        raise invalid(f"The input file {name} does not exist.")

    def _run(self, batch_id: str) -> None:
        self._change(batch_id, lambda batch: replace(batch, state=RUNNING))

    def _end(self, batch_id: str) -> None:
        batch = self._state.batches.find(batch_id)
        if batch is None or not batch.is_open:
            return
        ended = self._change(batch_id, self._outcome(batch))
        if ended is None:  # cancelled meanwhile
            self._state.files.remove(f"batch-{batch_id}")
            return
        self._announce(ended)

    def _outcome(self, batch: Batch) -> Change:
        """How the plan wants it to end; the rows are answered here, outside of any lock."""
        plan = batch.plan
        if plan.outcome == "failed":
            return failed(plans.status(plan.code, plan.message))
        if plan.outcome in ("expired", "cancelled") or not plan.results:
            return lambda one: ended(one, plan.outcome)
        try:
            answered = self._answered(batch)
        except (ValueError, Refusal) as error:
            return failed(plans.status(3, f"The input is invalid: {error}"))
        return lambda one: replace(ended(one, plan.outcome), **answered)

    def _answered(self, batch: Batch) -> dict[str, Any]:
        plan = batch.plan
        model = Model(batch.model, self._state.scripts, plan, embeds=batch.embeds)
        if plan.rows:
            rows = MadeUpRows(plan, batch.model)
            failures = rows.failures()
            return self._output(batch, rows, plan.rows - failures, failures)
        if batch.is_from_file:
            return self._answered_file(batch, model)
        return answered_inline(batch, model)

    def _answered_file(self, batch: Batch, model: Model) -> dict[str, Any]:
        counts = [0, 0]

        def lines() -> Iterator[bytes]:
            for line, is_success in model.lines(self._rows(batch)):
                counts[is_success] += 1
                yield line.encode() + b"\n"
            for row in batch.plan.extra:
                yield (row if isinstance(row, str) else json.dumps(row)).encode() + b"\n"

        content = self._state.files.write(lines())
        return self._output(batch, content, counts[True], counts[False])

    def _rows(self, batch: Batch) -> Iterator[Row]:
        file = self._input(batch.request.input_config.file_name or "")
        rest = b""
        for piece in file.content.read(0, file.content.size):
            *lines, rest = (rest + piece).split(b"\n")
            yield from (_row(line) for line in lines if line.strip())
        if rest.strip():
            yield _row(rest)

    def _output(self, batch: Batch, content: Content, good: int, bad: int) -> dict[str, Any]:
        kept_for = batch.plan.results_expire
        file = files.generated(f"batch-{batch.id}", content, JSONL, kept_for)
        self._state.files.add(file)
        return {"output": file.name, "successes": good, "failures": bad}

    def _change(self, batch_id: str, change: Change) -> Batch | None:
        """Change it if it is still open: of a cancel and an end, one wins."""
        changed: list[Batch] = []

        def once(batch: Batch) -> Batch:
            if not batch.is_open:
                return batch
            changed.append(replace(change(batch), updated=rfc3339()))
            return changed[0]

        with suppress(Refusal):  # deleted meanwhile
            self._state.batches.change(batch_id, once)
        return changed[0] if changed else None

    def _announce(self, batch: Batch) -> None:
        wanted = batch.plan.announce
        if wanted is False or (wanted is True and batch.state not in ANNOUNCED):
            return
        event_type, data = batches.event(batch, self._state.variants)
        event_type = wanted if isinstance(wanted, str) else event_type
        self._announcer.announce(event_type, data, batch.request.webhook_config)


def ended(batch: Batch, state: str) -> Batch:
    return replace(batch, state=state, ended=rfc3339())


def failed(error: plans.Status) -> Change:
    return lambda batch: replace(ended(batch, "failed"), error=error)


def answered_inline(batch: Batch, model: Model) -> dict[str, Any]:
    given = batch.request.input_config.requests
    requests = given.requests if given is not None else ()
    rows = [
        Row(one.request, {"metadata": one.metadata} if one.metadata else {}) for one in requests
    ]
    answers = [model.answer(number, row) for number, row in enumerate(rows)]
    answers.reverse()  # as seen live, not in the order of the requests
    good = sum("response" in answer for answer in answers)
    return {
        "inlined": (*answers, *batch.plan.extra),
        "successes": good,
        "failures": len(answers) - good,
    }


def _row(line: bytes) -> Row:
    asked = json.loads(line)
    if not isinstance(asked, dict) or not isinstance(asked.get("request"), dict):
        raise invalid("a line is no object with a 'request'.")
    return Row(asked["request"], {"key": asked["key"]} if "key" in asked else {})
