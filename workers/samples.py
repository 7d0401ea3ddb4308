"""The videos that a finished operation made; any field may be null, absent or odd."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from workers.answers import fields, objects

POINTERS = ("uri", "name")
INLINE = ("encodedVideo", "data", "videoBytes", "bytesBase64Encoded")
LISTS = ("generatedSamples", "generatedVideos")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """A video: where it lies, or itself in base64. One of the two is empty."""

    uri: str = ""
    inline: str = ""


def of_operation(operation: Json) -> list[Sample]:
    """As the guide reads it: response.generateVideoResponse.generatedSamples[].video.uri.

    Other releases have other names, or one level less; the first place that holds a video counts.
    """
    places = (response.get(name) for response in _responses(operation) for name in LISTS)
    return next(filter(None, map(_listed, places)), [])


def filtered(operation: Json) -> str:
    """Why a video was left out: the first reason that is a text, or none."""
    for response in _responses(operation):
        reasons = response.get("raiMediaFilteredReasons")
        for reason in reasons if isinstance(reasons, list) else ():
            if isinstance(reason, str) and reason:
                return reason
    return ""


def of_video(video: Json) -> Iterator[Sample]:
    """The one that *video* is, or nothing; a step of an interaction holds it likewise."""
    if uri := _first_text(video, POINTERS):
        yield Sample(uri=uri)
    elif inline := _first_text(video, INLINE):
        yield Sample(inline=inline)


def _responses(operation: Json) -> tuple[Json, Json]:
    response = fields(operation.get("response"))
    return fields(response.get("generateVideoResponse")), response


def _listed(samples: Any) -> list[Sample]:
    return [found for each in objects(samples) for found in of_video(fields(each.get("video")))]


def _first_text(of: Json, names: tuple[str, ...]) -> str:
    texts = (of.get(name) for name in names)
    return next((text for text in texts if isinstance(text, str) and text), "")
