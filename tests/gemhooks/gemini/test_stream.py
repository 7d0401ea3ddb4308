import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemhooks.errors import Refused
from gemhooks.gemini import stream
from gemhooks.gemini.stream import Frame, frames

WIRE = (
    'event: step.delta\ndata: {"text":\ndata: "zwölf"}\n\n'
    ": a comment\n\n"
    "id: 7\nretry: 5\ndata:plain\n\n"
    "event: nothing\n\n"
    "event: done\ndata: [DONE]\n\n"
    "data: cut"
)
FRAMES = [Frame("step.delta", '{"text":\n"zwölf"}'), Frame("", "plain"), Frame("done", "[DONE]")]


@given(
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=9),
    mark=st.booleans(),
)
def test_frames_are_the_same_however_they_arrive(end: str, sizes: list[int], *, mark: bool) -> None:
    wire = (("\ufeff" if mark else "") + WIRE.replace("\n", end)).encode()
    chunks: list[bytes] = []
    place = 0
    while place < len(wire):
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(wire[place : place + size])
        place += size

    assert list(frames(chunks)) == FRAMES


def test_a_frame_is_given_as_soon_as_it_is_whole() -> None:
    def arriving() -> object:
        yield b"data: 1\r\r"
        raise AssertionError("asked for more than was needed")

    assert next(frames(arriving())) == Frame("", "1")  # type: ignore[arg-type]


def test_what_is_cut_is_not_given() -> None:
    assert list(frames([b"data: 1\n\ndata: 2\n"])) == [Frame("", "1")]


@pytest.mark.parametrize("chunk", [b"data: " + b"x" * 100, b"data: xxxxxxxxxx\n" * 10])
def test_an_event_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch, chunk: bytes) -> None:
    monkeypatch.setattr(stream, "LARGEST_ANSWER", 64)

    with pytest.raises(Refused, match="larger"):
        list(frames([chunk]))
