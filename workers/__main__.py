"""``python -m workers``: the built-in consumers; with ``reconcile``: the reconciler."""

import sys
from collections.abc import Sequence

from gemhooks import entry, service, topology
from gemhooks.consumers import Consumers
from gemhooks.errors import Misconfigured
from gemhooks.gemini import Gemini
from gemhooks.metrics import GeminiMetrics, ResultMetrics
from gemhooks.results import ResultsStore
from gemhooks.settings import Settings
from workers.batches import BatchFetcher
from workers.calling import function_caller
from workers.observing import GeminiObserver
from workers.progress import Progress
from workers.videos import VideoFetcher
from workers.wiring import built_in_consumers


def build(parts: service.Parts) -> Consumers:
    settings = parts.settings
    gemini = Gemini.from_settings(settings, asked=GeminiMetrics(parts.registry).asked)
    if settings.preload:
        gemini.preload()
    results = ResultsStore(settings.results_url, spool=settings.spool)
    metrics = ResultMetrics(parts.registry)
    return built_in_consumers(
        gemini.interactions,
        results,
        parts.publisher,
        parts.ledgers.jobs,
        metrics=metrics,
        functions=function_caller(parts, gemini),
        conversations=settings.conversations,
        index=parts.ledgers.results,
        look=GeminiObserver(gemini).look,
        batches=BatchFetcher(
            gemini.operations,
            gemini.files,
            results,
            parts.ledgers.results,
            parts.publisher,
            parts.ledgers.jobs,
            metrics,
            publishes_rows=settings.batch_rows,
            further=Progress(parts.ledgers.handled, topology.BATCHES.name).note,
        ),
        videos=VideoFetcher(
            gemini.operations,
            gemini.interactions,
            gemini.files,
            results,
            parts.ledgers.results,
            parts.publisher,
            parts.ledgers.jobs,
            metrics,
            further=Progress(parts.ledgers.handled, topology.VIDEOS.name).note,
        ),
    )


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        return service.run(build, Settings.from_env())
    if list(arguments) == ["reconcile"]:
        from workers import reconcile  # noqa: PLC0415 - not a worker's memory

        return reconcile.run(Settings.from_env())
    raise Misconfigured("python -m workers takes no argument, or the one word reconcile.")


if __name__ == "__main__":
    entry.run(lambda: main(sys.argv[1:]))
