"""Errors in the shape that Google's APIs answer, so that the client raises its own types."""

import re
from dataclasses import dataclass
from http import HTTPStatus

from flask import Flask, Response, jsonify
from pydantic import ValidationError
from werkzeug.exceptions import HTTPException

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    416: "OUT_OF_RANGE",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


@dataclass
class Refusal(Exception):
    """The simulator refuses a request, as Gemini would."""

    code: int
    message: str
    retry_after: str | int | None = None
    status: str | None = None
    location: str | None = None

    def __str__(self) -> str:
        return self.message


def invalid(message: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, message)


def not_found(what: str) -> Refusal:
    return Refusal(HTTPStatus.NOT_FOUND, f"{what} not found.")


def install(app: Flask) -> None:
    app.register_error_handler(Refusal, refuse)
    app.register_error_handler(ValidationError, refuse_validation)
    app.register_error_handler(HTTPException, refuse_http)


def refuse(refusal: Refusal) -> Response:
    response = jsonify(
        error={
            "code": int(refusal.code),
            "message": refusal.message,
            "status": refusal.status or STATUSES.get(refusal.code, "UNKNOWN"),
        }
    )
    response.status_code = refusal.code
    if refusal.retry_after is not None:
        response.headers["Retry-After"] = str(refusal.retry_after)
    if refusal.location is not None:
        response.headers["Location"] = refusal.location
    return response


def refuse_validation(error: ValidationError) -> Response:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        snake = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
        hint = f" Did you mean '{snake}'?" if snake != name else ""
        return refuse(invalid(f"Unknown parameter '{name}'.{hint}"))
    return refuse(invalid(f"{name}: {first['msg']}" if name else first["msg"]))


def refuse_http(error: HTTPException) -> Response:
    return refuse(Refusal(error.code or 500, error.description or error.name))
