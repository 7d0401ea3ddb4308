"""Which built-in consumer takes which event from which queue."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from gemhooks import events, topology
from gemhooks.consumers import Consumers
from gemhooks.messages import Publisher
from gemhooks.metrics import ResultMetrics
from workers.batches import BatchFetcher
from workers.calling import unserved
from workers.chains import Noticing
from workers.functions import FunctionCaller
from workers.hints import Reducing
from workers.interactions import InteractionFetcher
from workers.ports import InteractionReader, JobMemory, Results
from workers.records import EventRecorder, Look
from workers.telling import ResultIndex
from workers.videos import VideoFetcher

if TYPE_CHECKING:
    from workers.conversations import ConversationTeller

E = TypeVar("E", bound=events.Event)


def built_in_consumers(
    interactions: InteractionReader,
    results: Results,
    publisher: Publisher,
    jobs: JobMemory,
    *,
    metrics: ResultMetrics,
    functions: FunctionCaller | None = None,
    conversations: bool = False,
    batches: BatchFetcher | None = None,
    videos: VideoFetcher | None = None,
    index: ResultIndex | None = None,
    look: Look | None = None,
) -> Consumers:
    """All of them; for what is not given, events are recorded only.

    None sees more of a hint than its type and id; *look* asks Gemini whether it is right.
    """
    teller = _teller(results, publisher) if conversations else None
    chains = functions.chains if functions else None
    fetcher = InteractionFetcher(
        interactions,
        results,
        publisher,
        jobs,
        metrics,
        conversations=teller,
        index=index,
        chains=chains,
    )
    recorder = EventRecorder(jobs, look)
    consumers, reducing = Consumers(once_per_resource=True), Reducing(jobs)

    def add(event: type[E], handler: Callable[[E], object], queue: topology.Queue) -> None:
        consumers.add(event, reducing.before(handler), queue=queue.name)

    queue, noticing = topology.INTERACTIONS, Noticing(chains)
    add(events.InteractionCompleted, noticing.before(fetcher.fetch), queue)
    add(events.InteractionEvent, noticing.before(fetcher.fetch_if_readable), queue)
    asked = functions.run if functions else recorder.record
    add(events.InteractionRequiresAction, asked, topology.FUNCTIONS)
    waiting = functions.run if functions else unserved
    add(events.InteractionWaiting, waiting, topology.FUNCTIONS)
    add(events.BatchEvent, batches.fetch if batches else recorder.record, topology.BATCHES)
    add(events.VideoEvent, recorder.record, topology.VIDEOS)
    if videos:
        add(events.VideoGenerated, videos.fetch, topology.VIDEOS)
    return consumers


def _teller(results: Results, publisher: Publisher) -> "ConversationTeller":
    from workers.conversations import ConversationTeller  # noqa: PLC0415 - models that few want

    return ConversationTeller(results, publisher)
