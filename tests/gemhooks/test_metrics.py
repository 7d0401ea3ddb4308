from prometheus_client import CollectorRegistry, generate_latest

from gemhooks.metrics import MOST_MODELS, ResultMetrics


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
