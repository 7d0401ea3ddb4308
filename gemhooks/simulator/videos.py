"""The life of a video, and the routes of its operation."""

from dataclasses import replace
from typing import Any

from flask import Blueprint, request

from gemhooks.simulator import files, plans
from gemhooks.simulator.announcer import Announcer
from gemhooks.simulator.clock import alphanumeric
from gemhooks.simulator.contents import Film
from gemhooks.simulator.plans import VideoPlan
from gemhooks.simulator.schedule import Schedule
from gemhooks.simulator.state import State
from gemhooks.simulator.video import Video, VideoRequest, event, resource

MP4 = "video/mp4"


class VideoJobs:
    def __init__(
        self, state: State, schedule: Schedule, announcer: Announcer, delay: float
    ) -> None:
        self._state = state
        self._schedule = schedule
        self._announcer = announcer
        self._delay = delay

    def create(self, model: str, asked: VideoRequest, size: int) -> Video:
        plan = plans.find(self._state.plans.videos, (asked.prompt, model), VideoPlan())
        video = Video(asked, model, plan)
        self._state.videos.put(video.id, video, size)
        if plan.outcome != "stuck":
            self._schedule.after(self._delay + plan.delay, lambda: self._end(video))
        return video

    def _end(self, video: Video) -> None:
        plan = video.plan
        if self._state.videos.find(video.id) is None:  # it made room for newer ones
            return
        if plan.outcome != "succeeded":  # nothing is documented that would say so
            error = plans.status(plan.code, plan.message)
            self._state.videos.change(video.id, lambda one: replace(one, done=True, error=error))
            return
        samples = () if plan.filtered else tuple(self._film(plan) for _ in range(plan.samples))
        ended = self._state.videos.change(
            video.id, lambda one: replace(one, done=True, samples=samples)
        )
        if plan.announce and samples:
            event_type = plan.announce if isinstance(plan.announce, str) else "video.generated"
            data = event(ended, self._state.base_uri, self._state.variants)
            self._announcer.announce(event_type, data, ended.request.webhook_config)

    def _film(self, plan: VideoPlan) -> str:
        file = files.generated(alphanumeric(12), Film(plan.bytes), MP4, None)
        return self._state.files.add(file).name


class VideoRoutes:
    def __init__(self, state: State, jobs: VideoJobs) -> None:
        self._state = state
        self._jobs = jobs

    def register(self, api: Blueprint) -> None:
        create, one = "/models/<model>:predictLongRunning", "/models/<model>/operations/<video_id>"
        api.add_url_rule(create, view_func=self.create_video, methods=["POST"])
        api.add_url_rule(one, view_func=self.get_video, methods=["GET"])

    def create_video(self, model: str) -> dict[str, Any]:
        asked = VideoRequest.model_validate(request.get_json())
        return self._show(self._jobs.create(f"models/{model}", asked, request.content_length or 0))

    def get_video(self, model: str, video_id: str) -> dict[str, Any]:
        return self._show(self._state.seen(video_id, self._state.videos))

    def _show(self, video: Video) -> dict[str, Any]:
        return resource(video, self._state.base_uri)
