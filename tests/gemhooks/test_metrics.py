from prometheus_client import CollectorRegistry, generate_latest

from gemhooks.messages import Message
from gemhooks.metrics import MOST_MODELS, GeminiMetrics, ResultMetrics, WorkerMetrics


def test_what_a_stranger_can_choose_makes_no_series_without_end() -> None:
    registry = CollectorRegistry()
    metrics = ResultMetrics(registry)

    for number in range(3 * MOST_MODELS):
        metrics.tokens(f"model-{number}", "input", f"modality-{number}", 1)
        metrics.tokens(f"ü\n{number}", "input", "text", 1)
        metrics.rows(f"outcome-{number}", 1)

    lines = generate_latest(registry).decode().splitlines()
    series = [line for line in lines if line.startswith("gemhooks_tokens_total{")]
    assert len(series) == MOST_MODELS + 2
    labels = {"model": "other", "kind": "input", "modality": "text"}
    assert registry.get_sample_value("gemhooks_tokens_total", labels) == 3 * MOST_MODELS
    assert registry.get_sample_value("gemhooks_batch_rows_total", {"outcome": "other"}) == 150


def test_answers_of_gemini_are_counted_by_class_and_those_that_tell_something_apart() -> None:
    registry = CollectorRegistry()
    metrics = GeminiMetrics(registry)

    for status in (200, 206, 400, 403, 404, 429, 500, 503, None):
        metrics.asked(status)

    (family,) = registry.collect()
    counted = {each.labels["answer"]: each.value for each in family.samples if each.name[-1] == "l"}
    assert counted == {"2xx": 2, "4xx": 1, "403": 1, "404": 1, "429": 1, "5xx": 2, "none": 1}


def test_an_event_is_as_old_as_its_date_says_and_never_younger_than_now() -> None:
    dated = Message("id", "t", b"", timestamp=900, time="1970-01-01T00:10:00Z")

    assert dated.age(1000.0) == 400.0
    assert Message("id", "t", b"", timestamp=900).age(1000.0) == 100.0
    assert Message("id", "t", b"", timestamp=900, time="soon").age(800.0) == 0.0
    assert Message("id", "t", b"").age(1000.0) is None


def test_the_age_counts_only_for_what_was_done() -> None:
    registry = CollectorRegistry()
    metrics = WorkerMetrics(registry).of("q")

    metrics.handled("t", "retry", 0.1)
    metrics.handled("t", "done", 0.1, 7.0)

    assert registry.get_sample_value("gemhooks_event_lag_seconds_count", {"queue": "q"}) == 1
    assert registry.get_sample_value("gemhooks_event_lag_seconds_sum", {"queue": "q"}) == 7.0
