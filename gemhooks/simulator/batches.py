"""The routes of /batches, and of the model calls that create one."""

from typing import Any

from flask import Blueprint, request
from pydantic import BaseModel, ConfigDict

from gemhooks.simulator.batch import Batch, BatchRequest, resource
from gemhooks.simulator.batch_jobs import BatchJobs
from gemhooks.simulator.paging import page
from gemhooks.simulator.state import State


class CreateRequest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    batch: BatchRequest


class BatchRoutes:
    def __init__(self, state: State, jobs: BatchJobs) -> None:
        self._state = state
        self._jobs = jobs

    def register(self, api: Blueprint) -> None:
        one, model = "/batches/<batch_id>", "/models/<model>"
        generate, embed = f"{model}:batchGenerateContent", f"{model}:asyncBatchEmbedContent"
        api.add_url_rule(generate, view_func=self.create_batch, methods=["POST"])
        api.add_url_rule(embed, view_func=self.create_embeddings, methods=["POST"])
        api.add_url_rule("/batches", view_func=self.list_batches, methods=["GET"])
        api.add_url_rule(one, view_func=self.get_batch, methods=["GET"])
        api.add_url_rule(one, view_func=self.delete_batch, methods=["DELETE"])
        api.add_url_rule(f"{one}:cancel", view_func=self.cancel_batch, methods=["POST"])
        # As the guide's curl writes it.
        api.add_url_rule(f"{one}:delete", "delete", self.delete_batch, methods=["POST", "DELETE"])

    def create_batch(self, model: str) -> dict[str, Any]:
        return self._create(model, embeds=False)

    def create_embeddings(self, model: str) -> dict[str, Any]:
        return self._create(model, embeds=True)

    def list_batches(self) -> dict[str, Any]:
        newest_first = self._state.batches.values()[::-1]
        answer, token = page("operations", newest_first, self._show)
        return answer | ({"nextPageToken": token} if token else {})

    def get_batch(self, batch_id: str) -> dict[str, Any]:
        return self._show(self._state.seen(batch_id, self._state.batches))

    def cancel_batch(self, batch_id: str) -> dict[str, Any]:
        self._jobs.cancel(batch_id)
        return {}

    def delete_batch(self, batch_id: str) -> dict[str, Any]:
        self._state.batches.remove(batch_id)
        return {}

    def _create(self, model: str, *, embeds: bool) -> dict[str, Any]:
        asked = CreateRequest.model_validate(request.get_json())
        size = request.content_length or 0
        return self._show(self._jobs.create(f"models/{model}", asked.batch, size, embeds=embeds))

    def _show(self, batch: Batch) -> dict[str, Any]:
        return resource(batch, self._state.variants)
