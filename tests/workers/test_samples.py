"""A video is found wherever one was documented or seen, and by everybody who looks."""

from typing import Any

import pytest

from workers import samples, sightings
from workers.samples import Sample

Json = dict[str, Any]
POINTED, INLINE = {"uri": "files/a"}, {"encodedVideo": "AAAA"}


def finished(response: object) -> Json:
    return {"name": "models/veo/operations/o", "done": True, "response": response}


def listed(*videos: object) -> list[object]:
    return [{"video": video} for video in videos]


@pytest.mark.parametrize("name", ["generatedSamples", "generatedVideos"])
@pytest.mark.parametrize("is_nested", [True, False])
@pytest.mark.parametrize(
    ("video", "sample"),
    [
        ({"uri": "files/a"}, Sample(uri="files/a")),
        ({"name": "files/a"}, Sample(uri="files/a")),
        ({"uri": "", "name": "files/a"}, Sample(uri="files/a")),
        ({"uri": None, "encodedVideo": "AAAA"}, Sample(inline="AAAA")),
        ({"data": "AAAA"}, Sample(inline="AAAA")),
        ({"videoBytes": "AAAA"}, Sample(inline="AAAA")),
        ({"data": 5, "bytesBase64Encoded": "AAAA"}, Sample(inline="AAAA")),
        ({"uri": "files/a", "encodedVideo": "AAAA"}, Sample(uri="files/a")),
    ],
)
def test_a_video_is_found_under_every_name_and_at_either_level(
    name: str, video: Json, sample: Sample, *, is_nested: bool
) -> None:
    made = {name: listed(video)}
    operation = finished({"generateVideoResponse": made} if is_nested else made)

    assert samples.of_operation(operation) == [sample]
    assert sightings.of_video(operation).state == "generated"


def test_the_first_place_that_holds_a_video_counts_and_none_counts_twice() -> None:
    twice = {"generatedSamples": listed(POINTED, INLINE)}
    odd = {"generatedSamples": [None, {}], "generatedVideos": listed(POINTED)}

    assert len(samples.of_operation(finished({"generateVideoResponse": twice} | twice))) == 2
    assert samples.of_operation(finished(odd)) == [Sample(uri="files/a")]


@pytest.mark.parametrize("odd", [None, [], [None], {}, "", 5, True, listed(None, {}, {"uri": 5})])
def test_what_is_odd_holds_no_video_and_no_reason(odd: object) -> None:
    for response in (odd, {"generateVideoResponse": odd}, {"generatedSamples": odd}):
        assert samples.of_operation(finished(response)) == []
        assert samples.filtered(finished(response)) == ""
    assert samples.filtered(finished({"raiMediaFilteredReasons": odd})) == ""


@pytest.mark.parametrize("is_nested", [True, False])
def test_the_reason_of_a_filtered_video_is_found_at_either_level(*, is_nested: bool) -> None:
    told = {"raiMediaFilteredReasons": [None, "", "not allowed"]}

    operation = finished({"generateVideoResponse": told} if is_nested else told)

    assert samples.filtered(operation) == "not allowed"
    assert sightings.of_video(operation).error_message == "not allowed"


def test_a_video_that_is_itself_in_the_answer_has_no_pointer() -> None:
    inline = finished({"generatedSamples": listed(INLINE)})
    both = finished({"generatedSamples": listed(INLINE, POINTED)})

    assert sightings.of_video(inline).pointers == {}
    assert sightings.of_video(both).pointers == {"output_file_uri": "files/a"}
