"""Follows an interaction's stream to its real end, across cuts, with nothing lost or doubled."""

import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Protocol

import structlog

from gemhooks import jsontext
from gemhooks.errors import NotYet, Retry
from gemhooks.gemini import FetchedInteraction, Gemini
from gemhooks.gemini.stream import DONE, Frame
from gemhooks.interactions.events import (
    UNKNOWN,
    Completed,
    InteractionEvent,
    Unknown,
    parse,
)
from gemhooks.settings import Settings

PATIENCE = 600.0  # seconds without a new event until a stream is given up
MOST_EMPTY = 5  # connections; then Gemini itself is asked whether there is more to come
RUNNING = ("in_progress", "queued")
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 15.0  # seconds between two connections
log = structlog.get_logger()


class Streams(Protocol):
    def frames(self, interaction_id: str, *, after: str = "") -> Iterator[Frame]: ...


class Interactions(Protocol):
    def get(self, interaction_id: str, /) -> FetchedInteraction: ...


class Source(Protocol):
    """What following needs of Gemini."""

    @property
    def streams(self) -> Streams: ...

    @property
    def interactions(self) -> Interactions: ...


def follow(
    interaction_id: str,
    *,
    gemini: Source | None = None,
    last_event_id: str = "",
    patience: float = PATIENCE,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[InteractionEvent]:
    """Yield the events of an interaction, live, until it really ends.

    After a cut the stream goes on behind the last event that had an id; what is sent again is
    recognised. Without *gemini*, one is made from the environment. Raises Retry once *patience*
    seconds brought no new event, and NotYet, Gone or Refused as a GET does.
    """
    if gemini is not None:
        yield from _followed(_Following(gemini, interaction_id, last_event_id), patience, pause)
        return
    with closing(Gemini.from_settings(Settings.from_env())) as own:
        yield from _followed(_Following(own, interaction_id, last_event_id), patience, pause)


def _followed(
    following: "_Following", patience: float, pause: Callable[[float], None]
) -> Iterator[InteractionEvent]:
    waited_since, attempt = time.monotonic(), 0
    while not following.ended:
        for event in following.connection():
            waited_since, attempt = time.monotonic(), 0
            yield event
        if time.monotonic() - waited_since > patience:
            raise Retry(f"the stream brought nothing new for {patience:.0f} s")
        if not following.ended:
            pause(max(following.asked_to_wait, _backoff(attempt)))
            attempt += 1


def _backoff(attempt: int) -> float:
    longest: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(attempt, 10))
    return longest * random.uniform(0.5, 1)  # noqa: S311 - spreads load, keeps no secret


class _Following:
    """What is known across the connections of one stream."""

    def __init__(self, gemini: Source, interaction_id: str, last_event_id: str) -> None:
        self._gemini = gemini
        self._id = interaction_id
        self._seen = _Seen(last_event_id)
        self._began = False
        self._empty = 0  # connections in a row that ended cleanly and brought nothing new
        self.ended = False
        self.asked_to_wait = 0.0  # seconds, by a Retry-After

    def connection(self) -> Iterator[InteractionEvent]:
        """The new events of one connection; the end of it may be a cut."""
        self._seen.reconnected()
        self.asked_to_wait = 0.0
        told, brought = False, False
        try:
            for frame in self._gemini.streams.frames(self._id, after=self._seen.last_id):
                if frame.data == DONE:
                    told = True
                    break
                event = _event(frame)
                if self._seen.is_new(event):
                    self._began = brought = True
                    yield event
                if isinstance(event, Completed):
                    self.ended = True
                    return
            # Cut off, there is more to come, even of an interaction that is over by now.
            self._empty = 0 if brought else self._empty + 1
            self.ended = (told or self._empty >= MOST_EMPTY) and self._is_over()
        except Retry as error:
            self._cut(error)

    def _cut(self, error: Retry) -> None:
        if isinstance(error, NotYet) and not self._began:
            raise error
        self.asked_to_wait = error.at_least
        log.info("stream_cut", id=self._id, reason=error.reason)

    def _is_over(self) -> bool:
        return self._gemini.interactions.get(self._id).parsed.get("status") not in RUNNING


class _Seen:
    """Recognises what a resumed stream sends again.

    An event with an id by its id; one without, by its place behind the last id and its content.
    """

    def __init__(self, last_id: str) -> None:
        self.last_id = last_id
        self._ids = {last_id}
        self._behind: list[bytes] = []  # digests of the events after last_id that have no id
        self._place = 0  # in _behind, of this connection

    def reconnected(self) -> None:
        self._place = 0

    def is_new(self, event: InteractionEvent) -> bool:
        return self._is_new_id(event.event_id) if event.event_id else self._is_new_content(event)

    def _is_new_id(self, event_id: str) -> bool:
        if event_id in self._ids:
            return False
        self._ids.add(event_id)
        self.last_id = event_id
        self._behind.clear()
        self._place = 0
        return True

    def _is_new_content(self, event: InteractionEvent) -> bool:
        content = json.dumps(event.to_json(), sort_keys=True)  # integers of any length
        digest = hashlib.sha256(content.encode()).digest()
        if digest in self._behind[self._place :]:
            self._place = self._behind.index(digest, self._place) + 1
            return False
        self._behind.append(digest)
        self._place = len(self._behind)
        return True


def _event(frame: Frame) -> InteractionEvent:
    try:
        return parse(jsontext.loads(frame.data), name=frame.name)
    except jsontext.Malformed:
        return Unknown(event_type=frame.name or UNKNOWN, metadata={"data": frame.data})
