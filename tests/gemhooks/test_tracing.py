"""Spans where they are asked for, and nothing at all where they are not."""

import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, get_current_span

from gemhooks import tracing
from gemhooks.messages import Message

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
