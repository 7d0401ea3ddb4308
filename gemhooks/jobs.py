"""Start work at Gemini and write its id down, so that its end is never missed.

Between the two a process can die. An interaction carries a mark in its ``user_metadata``, which
makes it ours when its event comes; a batch is found in the reconciler's list.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from gemhooks.errors import LedgerUnavailable, Unregistered
from gemhooks.functions import marks
from gemhooks.functions.once import insisting
from gemhooks.gemini import FetchedInteraction, Gemini
from gemhooks.ledger import Job, Ledgers, open_ledger
from gemhooks.settings import Settings

# What a continuation sends again where the interaction itself does not say it.
SENT_AGAIN = ("tools", "system_instruction", "generation_config")


class InteractionStarter(Protocol):
    def create(self, **wanted: Any) -> FetchedInteraction: ...


class OperationStarter(Protocol):
    def batch(self, *, model: str, src: str | Sequence[Any], config: Mapping[str, Any]) -> str: ...
    def video(
        self,
        *,
        model: str,
        instances: Sequence[Mapping[str, Any]],
        parameters: Mapping[str, Any] | None = None,
        webhook_config: Mapping[str, Any] | None = None,
    ) -> str: ...


@dataclass(frozen=True)
class Register:
    """Writes jobs down as ours; *expected* is in seconds by kind, *patience* in seconds.

    Every method raises Unregistered where the database stays away.
    """

    ledgers: Ledgers
    expected: Mapping[str, float]
    patience: float = 10.0

    def started(
        self, kind: str, job_id: str, *, expected_in: float | None = None, **known: Any
    ) -> Job:
        """Note a job that was started just now."""
        length = self.expected[kind] if expected_in is None else expected_in
        row = {"ours": True, "expected_at": time.time() + length, **known}
        jobs = self.ledgers.jobs
        try:
            job = insisting(lambda: jobs.record(kind, job_id, "started", **row), self.patience)
        except LedgerUnavailable as error:
            raise Unregistered(kind, job_id) from error
        if job.state == "requires_action":  # its event was faster, and may have been left alone
            self.ledgers.lookups.again(job, after=0.0)
        return job

    def add(self, kind: str, job_id: str, *, expected_in: float | None = None) -> Job:
        """Note a job that somebody else started, who knows when; it is looked up at once."""
        job = self.started(kind, job_id, expected_in=expected_in)
        self.ledgers.lookups.again(job, after=0.0)
        return job


@dataclass(frozen=True)
class Starter:
    """Starts jobs; :func:`connect` makes one.

    *uris* are called back in place of the project's webhooks, where there are any.
    Every method raises AnswerLost where Gemini may have started the job all the same, Retry where
    it can't be reached, Refused where it refuses, Unregistered (it has the id) where the job was
    started and the database is away.
    """

    interactions: InteractionStarter
    operations: OperationStarter
    register: Register
    uris: tuple[str, ...] = ()

    def interaction(
        self,
        *,
        user_metadata: Mapping[str, Any] | None = None,
        expected_in: float | None = None,
        **wanted: Any,
    ) -> Job:
        """Start an interaction in the background; *wanted* is what ``interactions.create`` takes.

        *user_metadata* comes back with every event; *expected_in* seconds it should have ended.
        """
        _check(wanted, user_metadata)
        config = self._webhook_config(marks.marked(user_metadata))
        created = self.interactions.create(**wanted, background=True, webhook_config=config)
        request = {name: wanted[name] for name in SENT_AGAIN if wanted.get(name)}
        return self.register.started(
            "interaction",
            created.id,
            expected_in=expected_in,
            user_metadata=config["user_metadata"],
            request=request | {"webhook_config": config},
        )

    def batch(
        self,
        *,
        model: str,
        src: str | Sequence[Any],
        config: Mapping[str, Any] | None = None,
        user_metadata: Mapping[str, Any] | None = None,
        expected_in: float | None = None,
    ) -> Job:
        """Start a batch; *model*, *src* and *config* are what ``batches.create`` takes.

        *user_metadata* is kept here only: the API refuses it for batches.
        """
        uris = {"webhook_config": {"uris": list(self.uris)}} if self.uris else {}
        name = self.operations.batch(model=model, src=src, config={**uris, **(config or {})})
        return self.register.started(
            "batch", name, expected_in=expected_in, user_metadata=user_metadata
        )

    def video(
        self,
        *,
        model: str,
        prompt: str,
        instance: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        user_metadata: Mapping[str, Any] | None = None,
        expected_in: float | None = None,
    ) -> Job:
        """Start a video; *instance* adds to the prompt (an image, say), as the REST API names it.

        *user_metadata* is kept here only.
        """
        name = self.operations.video(
            model=model,
            instances=[{"prompt": prompt, **(instance or {})}],
            parameters=parameters,
            webhook_config={"uris": list(self.uris)} if self.uris else None,
        )
        return self.register.started(
            "video", name, expected_in=expected_in, user_metadata=user_metadata
        )

    def _webhook_config(self, user_metadata: dict[str, Any]) -> dict[str, Any]:
        uris = {"uris": list(self.uris)} if self.uris else {}
        return {**uris, "user_metadata": user_metadata}


@contextmanager
def connect(settings: Settings | None = None) -> Iterator[Starter]:
    """Give a Starter for the environment's settings, or for *settings*.

    Raises Misconfigured where a person must act, LedgerUnavailable while the database is away.
    """
    settings = settings or Settings.from_env()
    gemini = Gemini.from_settings(settings)
    with closing(gemini), closing(open_ledger(settings.database_url.get_secret_value())) as ledgers:
        register = Register(ledgers, settings.expected)
        yield Starter(gemini.interactions, gemini.starts, register, settings.webhook_uris)


def _check(wanted: Mapping[str, Any], user_metadata: Mapping[str, Any] | None) -> None:
    """Raise ValueError for what would make an interaction that nobody is called back for."""
    if wanted.get("stream") or wanted.get("background") is False:
        raise ValueError("a job runs in the background: leave out stream and background")
    if "webhook_config" in wanted:
        raise ValueError(
            "webhook_config is made here: give user_metadata, set GEMHOOKS_WEBHOOK_URIS"
        )
    if wanted.get("store") is False:
        raise ValueError("store=False: Gemini keeps no background interaction without it")
    if marks.MARK in (user_metadata or {}):
        raise ValueError(f"{marks.MARK!r} in user_metadata is ours")
