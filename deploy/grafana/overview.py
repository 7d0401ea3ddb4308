"""The overview: are events arriving, are they being handled, what is stuck, what does it cost."""

from grafana_foundation_sdk.builders import dashboard

from deploy.grafana.parts import bars, empty, graph, number

RATE = "[$__rate_interval]"
HANDLED = "gemhooks_messages_total"
WAITING = 'rabbitmq_detailed_queue_messages_ready{queue=~"gemhooks\\\\..+",queue!~".+\\\\.dlq"}'
CONSUMERS = WAITING.replace("messages_ready", "consumers").replace(
    'queue!~"', 'queue!~"gemhooks\\\\.(retry|unrouted).*|'
)
CALL = "{{function}} {{outcome}}"
DEAD = 'rabbitmq_detailed_queue_messages{queue=~"gemhooks\\\\..+\\\\.dlq"}'


def quantile(share: float, metric: str, by: str = "le") -> str:
    return f"histogram_quantile({share}, sum by ({by}) (rate({metric}_bucket{RATE})))"


def rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{RATE}))"


def build() -> dashboard.Dashboard:
    board = empty("gemhooks / overview", "gemhooks-overview", "Is Gemini's work getting done?")
    board = _handling(_arriving(_in_ten_seconds(board)))
    return _webhooks(_cost(_functions(board)))


def _in_ten_seconds(board: dashboard.Dashboard) -> dashboard.Dashboard:
    refused = (
        f'(sum(rate(gemhooks_webhook_requests_total{{outcome!="published"}}{RATE})) or vector(0))'
        f" / sum(rate(gemhooks_webhook_requests_total{RATE}))"
    )
    lag = quantile(0.95, "gemhooks_event_lag_seconds")
    return (
        board.with_row(dashboard.Row("In ten seconds"))
        .with_panel(
            number(
                "Arriving",
                "Webhooks verified and safe in the queue, a second.",
                "reqps",
                (f'sum(rate(gemhooks_webhook_requests_total{{outcome="published"}}{RATE}))', ""),
            )
        )
        .with_panel(
            number(
                "Refused",
                "Share of requests that were not taken. Runbook: GemhooksAllRefused.",
                "percentunit",
                (refused, ""),
                (0.05, "orange"),
                (0.5, "red"),
            )
        )
        .with_panel(
            number(
                "Handled",
                "Messages that were handled for the first time, a second.",
                "ops",
                (f'sum(rate({HANDLED}{{outcome="done"}}{RATE}))', ""),
            )
        )
        .with_panel(
            number(
                "Event to handled, 95 %",
                "19 of 20 events are handled within this time of their happening.",
                "s",
                (lag, ""),
                (60, "orange"),
                (600, "red"),
            )
        )
        .with_panel(
            number(
                "Waiting",
                "Messages in the consumers' queues and on the retry ladder.",
                "short",
                (f"sum({WAITING})", ""),
                (1000, "orange"),
                (100000, "red"),
            )
        )
        .with_panel(
            number(
                "Dead letters",
                "Given up; a person decides: gemhooks dlq list. Runbook: GemhooksDeadLetters.",
                "short",
                (f"sum({DEAD})", ""),
                (1, "orange"),
                (100, "red"),
            )
        )
    )


def _arriving(board: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        board.with_row(dashboard.Row("Are events arriving?"))
        .with_panel(
            graph(
                "Requests by outcome",
                "Every request to the webhook paths, by what it was answered.",
                "reqps",
                (rate("gemhooks_webhook_requests_total", "outcome"), "{{outcome}}"),
            )
        )
        .with_panel(
            graph(
                "Refused signatures by reason",
                "Why signatures were refused. Nothing here is the best picture.",
                "reqps",
                (
                    rate("gemhooks_webhook_signature_failures_total", "reason") + " or vector(0)",
                    "{{reason}}",
                ),
            )
        )
        .with_panel(
            graph(
                "Until confirmed, until answered",
                "From handing a message to the broker to its confirm, and the whole request.",
                "s",
                (quantile(0.5, "gemhooks_publish_seconds"), "confirm, half"),
                (quantile(0.99, "gemhooks_publish_seconds"), "confirm, 99 %"),
                (quantile(0.99, "gemhooks_webhook_request_seconds"), "answer, 99 %"),
            )
        )
    )


def _handling(board: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        board.with_row(dashboard.Row("Are they being handled, and what is stuck?"))
        .with_panel(
            graph(
                "Handled by outcome",
                "done, duplicate, retry (later again), wait (not tried), dead (given up).",
                "ops",
                (rate(HANDLED, "outcome"), "{{outcome}}"),
            )
        )
        .with_panel(
            graph(
                "Waiting by queue",
                "Ready messages, from RabbitMQ; the retry ladder included.",
                "short",
                (f"max by (queue) ({WAITING})", "{{queue}}"),
            )
        )
        .with_panel(
            graph(
                "Consumers by queue",
                "0 means that nobody works. Runbook: GemhooksNoConsumer.",
                "short",
                (f"max by (queue) ({CONSUMERS})", "{{queue}}"),
            )
        )
        .with_panel(
            graph(
                "Event to handled",
                "How old events are when they are handled: waits and retries included.",
                "s",
                (quantile(0.5, "gemhooks_event_lag_seconds", "le, queue"), "{{queue}}, half"),
                (quantile(0.95, "gemhooks_event_lag_seconds", "le, queue"), "{{queue}}, 95 %"),
            )
        )
        .with_panel(
            graph(
                "Dead letters by queue",
                "They wait for a person: gemhooks dlq list, show, replay.",
                "short",
                (f"max by (queue) ({DEAD})", "{{queue}}"),
            )
        )
        .with_panel(
            graph(
                "Events that never came",
                "Found by the reconciler, and told in Gemini's place; jobs that are open or stuck.",
                "short",
                (f"sum(increase(gemhooks_reconciler_missed_events_total{RATE}))", "missed"),
                ("sum by (condition) (gemhooks_jobs)", "{{condition}}"),
            )
        )
    )


def _functions(board: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        board.with_row(dashboard.Row("Functions and Gemini"))
        .with_panel(
            graph(
                "Function calls by outcome",
                "Calls of a model that were answered.",
                "ops",
                (
                    rate("gemhooks_function_calls_total", "function, outcome"),
                    "{{function}} {{outcome}}",
                ),
            )
        )
        .with_panel(
            bars(
                "Parked for a person",
                "Calls that wait for a yes, or of which nobody knows how they ended:"
                " gemhooks calls list. Runbook: GemhooksCallOutcomeUnknown.",
                "short",
                ("max by (reason) (gemhooks_function_calls_parked)", "{{reason}}"),
            )
        )
        .with_panel(
            graph(
                "Requests to Gemini by answer",
                "429: it wants to be asked less; 401, 403: the key; none: it could not be reached.",
                "reqps",
                (rate("gemhooks_gemini_requests_total", "answer"), "{{answer}}"),
            )
        )
    )


def _cost(board: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        board.with_row(dashboard.Row("What does it cost?"))
        .with_panel(
            graph(
                "Tokens by kind",
                "As the fetched results report them; cached ones are a part of the input.",
                "short",
                (rate("gemhooks_tokens_total", "model, kind"), "{{model}} {{kind}}"),
            )
        )
        .with_panel(
            graph(
                "Fetched",
                "Bytes of results, by kind.",
                "Bps",
                (rate("gemhooks_result_bytes_total", "kind"), "{{kind}}"),
            )
        )
        .with_panel(
            graph(
                "Rows of batches",
                "By what each row is.",
                "ops",
                (rate("gemhooks_batch_rows_total", "outcome") + " or vector(0)", "{{outcome}}"),
            )
        )
    )


def _webhooks(board: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        board.with_row(dashboard.Row("Webhooks and keys"))
        .with_panel(
            bars(
                "Webhooks",
                "1: enabled; 0: Gemini has given it up, or a person did. Runbook:"
                " GemhooksWebhookDisabled.",
                "short",
                ("min by (webhook) (gemhooks_webhook_enabled)", "{{webhook}}"),
            )
        )
        .with_panel(
            bars(
                "Age of secrets",
                "Since each was put where the receiver reads it, by fingerprint.",
                "s",
                ("max by (key) (gemhooks_webhook_secret_age_seconds)", "{{key}}"),
            )
        )
        .with_panel(
            graph(
                "Verified by key",
                "Which key signs. A key that is about to end should be at 0.",
                "reqps",
                (rate("gemhooks_webhook_verified_total", "scheme, key"), "{{scheme}} {{key}}"),
            )
        )
    )
