"""The rules of the API's misbehaviour, carried out between the server and the routes."""

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress

from flask import Flask, Response, g, request, stream_with_context

from gemhooks.simulator.faults import Rule
from gemhooks.simulator.refusals import Refusal
from gemhooks.simulator.state import State

OURS = ("/livez", "/control/")  # what is no part of Gemini's API always behaves
MESSAGE = "The simulator was told to answer so."


class Misbehaviour:
    def __init__(self, state: State) -> None:
        self._state = state

    def install(self, app: Flask) -> None:
        app.before_request(self.before)
        app.after_request(self.after)

    def before(self) -> Response | None:
        """Do what the rule says instead of an answer; None lets the request through."""
        g.rule = rule = None if request.path.startswith(OURS) else self._hit()
        if rule is None:
            return None
        self._state.closing.wait(rule.delay)
        if rule.drop == "before":
            return hang_up()
        if rule.status is not None:
            raise Refusal(rule.status, MESSAGE, rule.retry_after, location=rule.location)
        if rule.body is not None:
            text = rule.body.replace("{id}", request.path.rpartition("/")[2])
            return Response(text, content_type="application/json")
        return None

    def after(self, response: Response) -> Response:
        rule: Rule | None = g.get("rule")
        if rule is None:
            return response
        if rule.drop == "after":
            return hang_up()
        if rule.drop in ("middle", "stall"):
            halve(response, hang_up if rule.drop == "middle" else self._fall_silent)
        if rule.throttle is not None:
            response.response = self._slowly(response.iter_encoded(), rule.throttle)
        return response

    def _hit(self) -> Rule | None:
        line = f"{request.method} {request.full_path.rstrip('?')}"
        return self._state.rulebook.hit(line, lambda: request.get_data(as_text=True))

    def _fall_silent(self) -> None:
        self._state.closing.wait()
        hang_up()

    def _slowly(self, pieces: Iterator[bytes], rate: int) -> Iterator[bytes]:
        for piece in pieces:
            self._state.closing.wait(len(piece) / rate)
            yield piece


def halve(response: Response, end: Callable[[], object]) -> None:
    """Let half of the answer through, then do *end*."""
    length = response.content_length or len(response.get_data())
    # With the request at hand: its connection is looked for when half of the answer is out.
    response.response = stream_with_context(cut(response.iter_encoded(), length // 2, end))
    response.content_length = length


def cut(pieces: Iterator[bytes], length: int, end: Callable[[], object]) -> Iterator[bytes]:
    """Yield the first *length* bytes, then do *end*."""
    for piece in pieces:
        yield piece[:length]
        length -= len(piece)
        if length <= 0:
            end()
            return


def hang_up() -> Response:
    """End the connection without a word; what is answered afterwards reaches nobody."""
    connection: socket.socket = request.environ["werkzeug.socket"]
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    return Response(status=500)
