"""What each request is answered, and the one place where it is logged and counted."""

import time
from concurrent.futures import Future
from dataclasses import dataclass
from http import HTTPStatus

import structlog
from msgspec import Struct, field

from gemhooks.errors import PublishFailed
from gemhooks.metrics import ReceiverMetrics

log = structlog.get_logger()

Headers = list[tuple[str, str]]

PENDING = "gemhooks.pending"  # where in the WSGI environ the view leaves its Pending
AT_ONCE = "gemhooks.at_once"  # there: must not wait; made false by a view that would have to
RETRY_AFTER = "5"  # seconds
TOO_LARGE = "too_large"


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and why; the body is always empty, so that it tells a stranger nothing."""

    status: int
    outcome: str
    reason: str = ""
    allow: str = ""

    def headers(self) -> Headers:
        headers = [] if self.status == 204 else [("Content-Length", "0")]  # noqa: PLR2004
        if self.status == 503:  # noqa: PLR2004
            headers.append(("Retry-After", RETRY_AFTER))
        if self.allow:
            headers.append(("Allow", self.allow))
        return headers


PUBLISHED = Answer(204, "published")
GONE = Answer(499, "client_gone")  # never sent: nobody is left to read it
STOPPING = Answer(503, "stopping")
OVERLOADED = Answer(503, "overloaded", "bodies")
FAILED = Answer(503, "failed")


def encode(status: int, headers: Headers, date: str, *, is_last: bool) -> bytes:
    """The head of an answer; after the *last* one the connection is closed."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Date: {date}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if is_last:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "\r\n"]).encode("latin-1")


class Record(Struct):
    """What is known of a request so far."""

    metrics: ReceiverMetrics
    webhook_id: str = ""
    event_type: str = "unknown"
    scheme: str = "none"
    key: str = ""
    request_id: str = ""
    started: float = field(default_factory=time.perf_counter)

    def report(self, answer: Answer) -> Answer:
        """Every request ends here: one log line, one count."""
        seconds = time.perf_counter() - self.started
        log.info(
            "webhook_received",
            outcome=answer.outcome,
            status=answer.status,
            reason=answer.reason,
            webhook_id=self.webhook_id,
            event_type=self.event_type,
            scheme=self.scheme,
            key=self.key,
            request_id=self.request_id,
            milliseconds=round(seconds * 1000, 2),
        )
        self.metrics.answered(self.event_type, self.scheme, answer.outcome, seconds)
        return answer


class Pending(Struct):
    """A message on its way to the queue, left behind by the view for the server to await."""

    future: Future[None]
    record: Record
    timeout: float
    since: float = field(default_factory=time.perf_counter)

    def conclude(self) -> Answer:
        """The answer as of now: a future that has not ended counts as a time-out."""
        result = self._result()
        self.record.metrics.published(result or "confirmed", time.perf_counter() - self.since)
        return self.record.report(not_published(result) if result else PUBLISHED)

    def _result(self) -> str:
        """Empty when the message is safe, else why it is not."""
        try:
            self.future.result(timeout=0)
        except PublishFailed as error:
            return error.reason
        except TimeoutError:
            return "timeout"
        except BaseException:  # a cancelled future too
            log.exception("publish_failed_unexpectedly")
            return "failed"
        return ""


def not_published(reason: str) -> Answer:
    return Answer(413 if reason == TOO_LARGE else 503, "publish_failed", reason)
