"""One consumer in detail: what it takes, how long it needs, what it gives up."""

from grafana_foundation_sdk.builders import dashboard

from deploy.grafana.overview import RATE
from deploy.grafana.parts import choice, empty, graph, number

OURS = 'queue=~"$queue"'
TAKEN = f"gemhooks_messages_total{{{OURS}}}{RATE}"


def build() -> dashboard.Dashboard:
    queues = choice("queue", "Queue", "label_values(gemhooks_messages_total, queue)")
    board = empty("gemhooks / consumer", "gemhooks-consumer", "One consumer, by its queue.")
    return _work(_numbers(board.with_variable(queues)))


def quantile(share: float, metric: str) -> str:
    return f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket{{{OURS}}}{RATE})))"


def share(outcome: str) -> str:
    some = f'sum(rate(gemhooks_messages_total{{{OURS},outcome="{outcome}"}}{RATE}))'
    return f"({some} or vector(0)) / sum(rate({TAKEN}))"


def _numbers(board: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        board.with_panel(
            number("Handled", "Messages taken, a second.", "ops", (f"sum(rate({TAKEN}))", ""))
        )
        .with_panel(
            number(
                "Retried",
                "Share that was put back for later.",
                "percentunit",
                (share("retry"), ""),
                (0.1, "orange"),
                (0.5, "red"),
            )
        )
        .with_panel(
            number(
                "Given up",
                "Share that went to the dead letters.",
                "percentunit",
                (share("dead"), ""),
                (0.001, "orange"),
                (0.05, "red"),
            )
        )
        .with_panel(
            number(
                "In work",
                "Messages that handlers are at, now.",
                "short",
                (f"sum(gemhooks_messages_in_flight{{{OURS}}})", ""),
            )
        )
        .with_panel(
            number(
                "Consuming",
                "Longest time since a process proved that it consumes.",
                "s",
                (f"max(gemhooks_consumer_alive_age_seconds{{{OURS}}})", ""),
                (60, "orange"),
                (300, "red"),
            )
        )
        .with_panel(
            number(
                "Waiting",
                "Ready messages, from RabbitMQ.",
                "short",
                (f"sum(rabbitmq_detailed_queue_messages_ready{{{OURS}}})", ""),
            )
        )
    )


def _work(board: dashboard.Dashboard) -> dashboard.Dashboard:
    return (
        board.with_panel(
            graph(
                "By outcome",
                "done, duplicate, retry, wait, dead.",
                "ops",
                (f"sum by (queue, outcome) (rate({TAKEN}))", "{{queue}} {{outcome}}"),
                span=12,
            )
        )
        .with_panel(
            graph(
                "By event",
                "Types that this release does not know are one: other.",
                "ops",
                (f"sum by (event_type) (rate({TAKEN}))", "{{event_type}}"),
                span=12,
            )
        )
        .with_panel(
            graph(
                "Time of a message",
                "From taking it to settling it, the handler included.",
                "s",
                (quantile(0.5, "gemhooks_message_seconds"), "half"),
                (quantile(0.95, "gemhooks_message_seconds"), "95 %"),
                (quantile(0.99, "gemhooks_message_seconds"), "99 %"),
            )
        )
        .with_panel(
            graph(
                "Event to handled",
                "How old events are when they are handled.",
                "s",
                (quantile(0.5, "gemhooks_event_lag_seconds"), "half"),
                (quantile(0.95, "gemhooks_event_lag_seconds"), "95 %"),
            )
        )
        .with_panel(
            graph(
                "In work, by process",
                "Messages that handlers are at; at GEMHOOKS_CONCURRENCY, add a replica.",
                "short",
                (f"sum by (instance) (gemhooks_messages_in_flight{{{OURS}}})", "{{instance}}"),
            )
        )
    )
