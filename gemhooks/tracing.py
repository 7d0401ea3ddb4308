"""OpenTelemetry spans, where GEMHOOKS_TRACING=1 asks for them; off, nothing of it is imported.

The names are those of OpenTelemetry's conventions for messaging; where spans go is said by its own
variables (``OTEL_EXPORTER_OTLP_ENDPOINT`` ...). No body, no secret and no token is in a span.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from gemhooks.errors import Misconfigured
from gemhooks.messages import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

Ended = Callable[[str, str], None]  # told the outcome of a message, and its reason


def _unheard(_outcome: str, _reason: str) -> None:
    """Nobody traces."""


class Tracing(Protocol):
    """What a runner tells of each message."""

    def handling(self, message: Message, queue: str) -> AbstractContextManager[Ended]:
        """Open a span, the present one for the handler; call what it gives at the end."""
        ...

    def close(self) -> None:
        """Send what waits."""
        ...


class Off:
    """No spans: one call and one object that is always the same."""

    _nothing = nullcontext(_unheard)

    def handling(self, message: Message, queue: str) -> AbstractContextManager[Ended]:
        return self._nothing

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
            attributes=attributes_of(message, queue),
        ) as span:

            def ended(outcome: str, reason: str) -> None:
                span.set_attribute("gemhooks.outcome", outcome)
                if outcome == "dead":
                    span.set_status(self._trace.StatusCode.ERROR, reason)

            yield ended

    def close(self) -> None:
        self._provider.shutdown()


def attributes_of(message: Message, queue: str) -> dict[str, str | int]:
    return {
        "messaging.system": "rabbitmq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": queue,
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
