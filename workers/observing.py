"""Looks at Gemini for the reconciler: one request a job, whatever its kind."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gemhooks.errors import Reject
from gemhooks.gemini import Gemini
from gemhooks.heads import bare_id
from workers import sightings
from workers.sightings import Sighting

INTERACTION_PREFIX = "v1_"


@dataclass(frozen=True)
class GeminiObserver:
    """An Observer of one project."""

    gemini: Gemini

    def look(self, kind: str, job_id: str) -> Sighting:
        match kind:
            case "interaction":
                return self._interaction(job_id)
            case "batch":
                return sightings.of_batch(self.gemini.operations.get(f"batches/{bare_id(job_id)}"))
            case "video":
                return self._video(job_id)
        raise Reject(f"nobody knows where to look up a {kind[:40]}")

    def batches(self) -> Iterator[tuple[str, Sighting]]:
        for batch in self.gemini.operations.list("batches"):
            if isinstance(name := batch.get("name"), str) and name:
                yield name, sightings.of_batch(batch)

    def _interaction(self, job_id: str) -> Sighting:
        return sightings.of_interaction(self.gemini.interactions.get(bare_id(job_id)).parsed)

    def _video(self, job_id: str) -> Sighting:
        """A video is an operation, or an interaction that makes one."""
        if not bare_id(job_id).startswith(INTERACTION_PREFIX):
            return sightings.of_video(self.gemini.operations.get(job_id))
        made = self._interaction(job_id)
        return replace(made, state="generated") if made.state == "completed" else made
