"""Spans where they are asked for, and nothing at all where they are not."""

import subprocess
import sys
from concurrent.futures import Future

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, get_current_span

from gemhooks import tracing
from gemhooks.errors import PublishFailed
from gemhooks.messages import Message
from gemhooks.testing import MemoryPublisher

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def traced(spans: InMemorySpanExporter) -> tracing.OpenTelemetry:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return tracing.OpenTelemetry(provider)


def message(traceparent: str = "") -> Message:
    return Message("msg_1", "batch.succeeded", b"{}", traceparent=traceparent, attempt=2)


def test_a_message_is_handled_in_the_trace_that_it_came_with(
    traced: tracing.OpenTelemetry, spans: InMemorySpanExporter
) -> None:
    with traced.handling(message(PARENT), "gemhooks.batches") as ended:
        within = get_current_span().get_span_context().trace_id
        ended("done", "")

    (span,) = spans.get_finished_spans()
    assert f"{within:032x}" == TRACE
    assert (span.name, span.kind) == ("process gemhooks.batches", SpanKind.CONSUMER)
    attributes = dict(span.attributes or {})
    assert attributes["messaging.message.id"] == "msg_1"
    assert attributes["messaging.message.body.size"] == 2
    assert attributes["gemhooks.outcome"] == "done"


@pytest.mark.parametrize("traceparent", ["", "nonsense", "00-" + "0" * 32 + "-b7ad6b7169203331-01"])
def test_a_traceparent_that_is_none_begins_a_trace(
    traced: tracing.OpenTelemetry, spans: InMemorySpanExporter, traceparent: str
) -> None:
    with traced.handling(message(traceparent), "q") as ended:
        ended("done", "")

    (span,) = spans.get_finished_spans()
    assert span.parent is None


def test_what_is_given_up_is_an_error(
    traced: tracing.OpenTelemetry, spans: InMemorySpanExporter
) -> None:
    with traced.handling(message(), "q") as ended:
        ended("dead", "gave_up")

    (span,) = spans.get_finished_spans()
    assert not span.status.is_ok
    assert span.status.description == "gave_up"


def test_off_imports_nothing_and_makes_nothing() -> None:
    code = (
        "import sys, gemhooks.service\n"
        "from gemhooks import tracing\n"
        "off = tracing.tracing(wanted=False)\n"
        "assert off.handling(None, 'q') is off.handling(None, 'q')\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )

    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_message_that_is_received_goes_on_in_the_trace_of_its_request(
    traced: tracing.OpenTelemetry, spans: InMemorySpanExporter
) -> None:
    kept = MemoryPublisher()
    traced.publishing(kept).publish(message(PARENT)).result(1)

    (span,) = spans.get_finished_spans()
    assert (span.name, span.kind) == ("send gemhooks.events", SpanKind.PRODUCER)
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" in PARENT
    assert span.context is not None
    (sent,) = kept.messages
    assert sent.traceparent == f"00-{TRACE}-{span.context.span_id:016x}-01"
    assert replace(sent, traceparent=PARENT) == message(PARENT)


def test_what_a_handler_publishes_is_a_child_of_its_span(
    traced: tracing.OpenTelemetry, spans: InMemorySpanExporter
) -> None:
    publisher = traced.publishing(MemoryPublisher())
    with traced.handling(message(PARENT), "q") as ended:
        publisher.publish(message("00-" + "1" * 32 + "-" + "2" * 16 + "-01"), exchange="results")
        ended("done", "")

    send, process = spans.get_finished_spans()
    assert (send.name, process.name) == ("send results", "process q")
    assert send.parent is not None
    assert process.context is not None
    assert send.parent.span_id == process.context.span_id


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_send_lasts_until_the_confirm_and_tells_of_a_failed_one(
    traced: tracing.OpenTelemetry, spans: InMemorySpanExporter, *, is_cancelled: bool
) -> None:
    class Slow:
        def __init__(self) -> None:
            self.future: Future[None] = Future()

        def publish(self, message: Message, *, exchange: str = "") -> Future[None]:
            return self.future

    slow = Slow()
    traced.publishing(slow).publish(message())
    assert not spans.get_finished_spans()
    if is_cancelled:
        slow.future.cancel()
    else:
        slow.future.set_exception(PublishFailed("unconfirmed"))

    (span,) = spans.get_finished_spans()
    assert not span.status.is_ok


def test_a_publish_that_is_refused_at_once_ends_its_span(
    traced: tracing.OpenTelemetry, spans: InMemorySpanExporter
) -> None:
    class Refusing:
        def publish(self, message: Message, *, exchange: str = "") -> Future[None]:
            raise PublishFailed("closed")

    with pytest.raises(PublishFailed):
        traced.publishing(Refusing()).publish(message())

    (span,) = spans.get_finished_spans()
    assert not span.status.is_ok


def test_off_the_publisher_is_the_very_same() -> None:
    kept = MemoryPublisher()

    assert tracing.OFF.publishing(kept) is kept
