"""Which built-in consumer takes which event from which queue."""

from gemhooks import events, topology
from gemhooks.consumers import Consumers
from gemhooks.messages import Publisher
from workers.interactions import InteractionFetcher
from workers.ports import InteractionReader, JobRecorder, Results
from workers.records import EventRecorder


def built_in_consumers(
    interactions: InteractionReader, results: Results, publisher: Publisher, jobs: JobRecorder
) -> Consumers:
    """All of them; requires_action, batches and videos are recorded only."""
    fetcher = InteractionFetcher(interactions, results, publisher, jobs)
    recorder = EventRecorder(jobs)
    consumers = Consumers(once_per_resource=True)
    queue = topology.INTERACTIONS.name
    consumers.add(events.InteractionCompleted, fetcher.fetch, queue=queue)
    consumers.add(events.InteractionEvent, recorder.record, queue=queue)
    consumers.add(events.InteractionRequiresAction, recorder.record, queue=topology.FUNCTIONS.name)
    consumers.add(events.BatchEvent, recorder.record, queue=topology.BATCHES.name)
    consumers.add(events.VideoEvent, recorder.record, queue=topology.VIDEOS.name)
    return consumers
