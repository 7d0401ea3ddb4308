"""The rules of the API's misbehaviour, carried out between the server and the routes."""

import socket
from collections.abc import Iterator
from contextlib import suppress

from flask import Flask, Response, g, request

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
            return Response(rule.body, content_type="application/json")
        return None

    def after(self, response: Response) -> Response:
        rule = g.get("rule")
        if rule is not None and rule.drop == "after":
            return hang_up()
        if rule is not None and rule.drop == "middle":
            length = response.content_length or len(response.get_data())
            response.response = cut(response.iter_encoded(), length // 2)
            response.content_length = length
        return response

    def _hit(self) -> Rule | None:
        return self._state.rulebook.hit(f"{request.method} {request.full_path.rstrip('?')}")


def cut(pieces: Iterator[bytes], length: int) -> Iterator[bytes]:
    """Yield the first *length* bytes, then break the connection."""
    for piece in pieces:
        yield piece[:length]
        length -= len(piece)
        if length <= 0:
            hang_up()
            return


def hang_up() -> Response:
    """End the connection without a word; what is answered afterwards reaches nobody."""
    connection: socket.socket = request.environ["werkzeug.socket"]
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    return Response(status=500)
