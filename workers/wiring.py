"""Which built-in consumer takes which event from which queue."""

from gemhooks import events, topology
from gemhooks.consumers import Consumers
from gemhooks.messages import Publisher
from gemhooks.metrics import ResultMetrics
from workers.batches import BatchFetcher
from workers.calling import unserved
from workers.chains import Noticing
from workers.conversations import ConversationTeller
from workers.functions import FunctionCaller
from workers.interactions import InteractionFetcher
from workers.ports import InteractionReader, JobRecorder, Results
from workers.records import EventRecorder
from workers.telling import ResultIndex
from workers.videos import VideoFetcher


def built_in_consumers(
    interactions: InteractionReader,
    results: Results,
    publisher: Publisher,
    jobs: JobRecorder,
    *,
    metrics: ResultMetrics,
    functions: FunctionCaller | None = None,
    conversations: bool = False,
    batches: BatchFetcher | None = None,
    videos: VideoFetcher | None = None,
    index: ResultIndex | None = None,
) -> Consumers:
    """All of them; for what is not given, events are recorded only."""
    teller = ConversationTeller(results, publisher) if conversations else None
    fetcher = InteractionFetcher(
        interactions, results, publisher, jobs, metrics, conversations=teller, index=index
    )
    recorder = EventRecorder(jobs)
    consumers = Consumers(once_per_resource=True)
    queue = topology.INTERACTIONS.name
    noticing = Noticing(functions.chains if functions else None)
    consumers.add(events.InteractionCompleted, noticing.before(fetcher.fetch), queue=queue)
    consumers.add(events.InteractionEvent, noticing.before(fetcher.fetch_if_readable), queue=queue)
    queue = topology.FUNCTIONS.name
    asked = functions.run if functions else recorder.record
    consumers.add(events.InteractionRequiresAction, asked, queue=queue)
    consumers.add(events.InteractionWaiting, functions.run if functions else unserved, queue=queue)
    fetch = batches.fetch if batches else recorder.record
    consumers.add(events.BatchEvent, fetch, queue=topology.BATCHES.name)
    consumers.add(events.VideoEvent, recorder.record, queue=topology.VIDEOS.name)
    if videos:
        consumers.add(events.VideoGenerated, videos.fetch, queue=topology.VIDEOS.name)
    return consumers
