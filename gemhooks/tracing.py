"""OpenTelemetry spans, where GEMHOOKS_TRACING=1 asks for them; off, nothing of it is imported.

The names are those of OpenTelemetry's conventions for messaging; where spans go is said by its own
variables (``OTEL_EXPORTER_OTLP_ENDPOINT`` ...). No body, no secret and no token is in a span.
"""

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from gemhooks import topology
from gemhooks.errors import Misconfigured
from gemhooks.logs import redact
from gemhooks.messages import Message, Publisher

if TYPE_CHECKING:
    from collections.abc import Iterator

Ended = Callable[[str, str], None]  # told the outcome of a message, and its reason


def _unheard(_outcome: str, _reason: str) -> None:
    """Nobody traces."""


class Tracing(Protocol):
    """What is told of each message."""

    def handling(self, message: Message, queue: str) -> AbstractContextManager[Ended]:
        """Open a span, the present one for the handler; call what it gives at the end."""
        ...

    def publishing(self, publisher: Publisher, /) -> Publisher:
        """The same publisher, with a span for each message that it is given."""
        ...

    def close(self) -> None:
        """Send what waits."""
        ...


class Off:
    """No spans: one call and one object that is always the same."""

    _nothing = nullcontext(_unheard)

    def handling(self, message: Message, queue: str) -> AbstractContextManager[Ended]:
        return self._nothing

    def publishing(self, publisher: Publisher, /) -> Publisher:
        return publisher

    def close(self) -> None:
        """There is nothing to send."""


OFF = Off()


class OpenTelemetry:
    """Spans of *provider*, an SDK's TracerProvider."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - an extra
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
            TraceContextTextMapPropagator,
        )

        self._provider = provider
        self._tracer = provider.get_tracer("gemhooks")
        self._trace = trace
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def handling(self, message: Message, queue: str) -> "Iterator[Ended]":
        """A child of the message's ``traceparent``; one that is malformed counts as absent."""
        parent = self._propagator.extract({"traceparent": message.traceparent})
        with self._tracer.start_as_current_span(
            f"process {queue}",
            context=parent,
            kind=self._trace.SpanKind.CONSUMER,
            attributes=attributes_of(message, queue, "process"),
        ) as span:

            def ended(outcome: str, reason: str) -> None:
                span.set_attribute("gemhooks.outcome", outcome)
                if outcome == "dead":
                    span.set_status(self._trace.StatusCode.ERROR, reason)

            yield ended

    def publishing(self, publisher: Publisher, /) -> Publisher:
        return _Traced(publisher, self.sending)

    def sending(self, message: Message, exchange: str) -> "tuple[Any, Message]":
        """A span that has begun, and the message as it goes on from there.

        A child of the handler's span; outside of one, of the message's own ``traceparent``.
        """
        span = self._tracer.start_span(
            f"send {exchange}",
            context=self._parent(message),
            kind=self._trace.SpanKind.PRODUCER,
            attributes=attributes_of(message, exchange, "send"),
        )
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self._trace.set_span_in_context(span))
        return span, replace(message, traceparent=carrier.get("traceparent", ""))

    def _parent(self, message: Message) -> Any:
        if self._trace.get_current_span().get_span_context().is_valid:
            return None  # the present one
        return self._propagator.extract({"traceparent": message.traceparent})

    def close(self) -> None:
        self._provider.shutdown()


class _Traced:
    """A publisher whose messages go on in a span that ends with their confirm."""

    def __init__(
        self, publisher: Publisher, sending: Callable[[Message, str], tuple[Any, Message]]
    ) -> None:
        self._publisher = publisher
        self._sending = sending

    def publish(self, message: Message, *, exchange: str = topology.EVENTS) -> Future[None]:
        span, sent = self._sending(message, exchange)
        try:
            future = self._publisher.publish(sent, exchange=exchange)
        except BaseException as error:
            _end(span, error)
            raise
        future.add_done_callback(lambda each: _end(span, _error_of(each)))
        return future


def _error_of(future: Future[None]) -> BaseException | None:
    return CancelledError() if future.cancelled() else future.exception()


def _end(span: Any, error: BaseException | None) -> None:
    if error is not None:
        span.set_attribute("error.type", type(error).__name__)
        span.set_status(_error_status(), redact(str(error))[:300])
    span.end()


def _error_status() -> Any:
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - an extra

    return StatusCode.ERROR


def attributes_of(message: Message, place: str, operation: str) -> dict[str, str | int]:
    return {
        "messaging.system": "rabbitmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": place,
        "messaging.rabbitmq.destination.routing_key": message.routing_key,
        "messaging.message.id": message.key,
        "messaging.message.body.size": len(message.body),
        "gemhooks.event_type": message.routing_key,
        "gemhooks.attempt": message.attempt,
    }


def tracing(*, wanted: bool) -> Tracing:
    """As GEMHOOKS_TRACING says; Misconfigured where the extra is missing."""
    if not wanted:
        return OFF
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        raise Misconfigured("GEMHOOKS_TRACING needs: pip install 'gemhooks[tracing]'.") from None
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return OpenTelemetry(provider)
