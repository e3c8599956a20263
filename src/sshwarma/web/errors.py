"""Error responses of the HTTP server: the same JSON body for every error."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.terminal.escape import escape_lines
from sshwarma.world.errors import RateLimited, TimedOut, WorldError
from sshwarma.world.reader import API_CLIENT

log = structlog.get_logger(__name__)

HTTP_STATUSES: Final = {
    "unauthorized": 401,
    "forbidden": 403,
    "blocked": 403,
    "not_found": 404,
    "timed_out": 408,
    "conflict": 409,
    "too_large": 413,
    "invalid": 422,
    "refused": 422,
    "rate_limited": 429,
    "unavailable": 503,
}
"""The HTTP status of each code of a WorldError; a test fails if a code is missing."""

_SENTENCES: Final = {
    404: "There is nothing at this path.",
    405: "This path does not support the method.",
    415: "The content type is not supported.",
}


class Unauthorized(WorldError):
    """A missing or invalid bearer token: status 401."""

    code = "unauthorized"


def make_error_body(code: str, message: str, hint: str = "") -> dict[str, Any]:
    """Return an error's JSON body; control characters are shown, as in terminals."""
    return {"error": code, "message": escape_lines(message), "hint": escape_lines(hint)}


def describe_refusal(refused: WorldError) -> dict[str, Any]:
    """Return the JSON body of a refusal."""
    return make_error_body(refused.code, refused.message, refused.hint_for(API_CLIENT))


def refuse(refused: WorldError) -> JSONResponse:
    """Return the response of a refusal, with the status of its code."""
    headers: dict[str, str] = {}
    if isinstance(refused, RateLimited):
        headers["Retry-After"] = str(refused.retry_after_seconds)
    if isinstance(refused, TimedOut):
        headers["Connection"] = "close"  # the rest of the body is not read
    status = HTTP_STATUSES.get(refused.code, 422)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(describe_refusal(refused), status_code=status, headers=headers)


async def handle_http_exception(request: Request, error: Exception) -> Response:
    """Return the response of an error that Starlette raises, such as an unknown path."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers: Mapping[str, str] | None = getattr(error, "headers", None)
    hint = f"Use {headers['Allow']}." if status == 405 and headers and "Allow" in headers else ""
    phrase = HTTPStatus(status).phrase
    body = make_error_body(
        phrase.lower().replace(" ", "_"), _SENTENCES.get(status, f"{phrase}."), hint
    )
    return JSONResponse(body, status_code=status, headers=dict(headers) if headers else None)


async def handle_internal_error(request: Request, error: Exception) -> Response:
    """Log an error of the program, and return its response without details."""
    log.error("a request failed", path=request.url.path, exc_info=error)
    return JSONResponse(make_error_body("internal", INTERNAL_ERROR), status_code=500)
