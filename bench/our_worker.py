"""Our consumer with a no-op typed handler; LEDGER is off, or a database's URL."""

import os
import signal
import threading

from prometheus_client import CollectorRegistry

from bench.peers.counting import Count, Delays
from gemhooks import events, lines, logs
from gemhooks.consumers import Consumers
from gemhooks.ledger import NullLedger, open_ledger
from gemhooks.messages import Ledger
from gemhooks.metrics import WorkerMetrics
from gemhooks.queues.connect import connect
from gemhooks.service import Service
from gemhooks.settings import Settings

consumers = Consumers()
count, delays = Count(), Delays()
timed = os.environ.get("TIMED") == "1"


@consumers.on(events.InteractionCompleted, queue=os.environ["QUEUE"])
def handle(event: events.InteractionCompleted) -> None:
    if timed:
        delays.saw(event.data.user_metadata["sent"])
    else:
        count.hit()


def ledger() -> Ledger:
    url = os.environ["LEDGER"]
    return NullLedger() if url == "off" else open_ledger(url).handled


def main() -> None:
    """Everything a worker does, logs and metrics too, and then the one thing that differs."""
    settings = Settings.from_env()
    logs.configure(settings.log_format, settings.log_level, gathered=lines.by_thread)
    broker = connect(settings.broker_url.get_secret_value(), publish_timeout=5.0)
    service = Service(consumers, broker, ledger(), WorkerMetrics(CollectorRegistry()), settings)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    service.start()
    stop.wait()
    service.stop()


if __name__ == "__main__":
    main()
