"""What a request of the API comes with: its client, arguments as JSON, or a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import HTTPConnection, Request

from sshwarma.common.json_guard import JsonTooLarge, load_json
from sshwarma.common.limits import HTTP_BODY_TIMEOUT_SECONDS
from sshwarma.common.refusals import count_refusal
from sshwarma.common.shorten import shorten_name
from sshwarma.common.validation_text import describe_json_error
from sshwarma.web.endpoints import body_hint
from sshwarma.world.errors import Invalid, TimedOut, TooLarge


def client_address(request: HTTPConnection) -> str:
    """Return the address of the client; "" if it is not known."""
    return request.client.host if request.client else ""


def content_type(request: Request) -> str:
    """Return the media type of a body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _check_query(request: Request) -> None:
    """Refuse arguments in the query of a request that has them in its body.

    Raises:
        Invalid: naming it: a mistyped room would else be the agent's last one.
    """
    for name in request.query_params:
        if name != "room":
            raise Invalid(
                f"{shorten_name(name)}: unknown argument of the query.",
                hint="The query has the room; the other arguments are in the body.",
            )


async def read_arguments(request: Request, limit: int) -> dict[str, Any]:
    """Return the arguments in a body; none without a body.

    Raises:
        Invalid: if it is no JSON object, or if there are arguments in the query, too.
        TooLarge: if it has more than `limit` bytes, or too many values.
        TimedOut: as of `read_body`.
    """
    if request.method == "POST":
        _check_query(request)
    body = bytearray()
    async for chunk in read_body(request, limit):
        body += chunk
    try:
        arguments = load_json(body or b"{}")
    except JsonTooLarge as error:
        raise TooLarge(f"The request body {error}.") from error
    except (ValueError, RecursionError) as error:
        raise Invalid(
            f"The request body is not JSON: {describe_json_error(error)}.",
            hint=body_hint(request.url.path),
        ) from error
    if not isinstance(arguments, dict):
        raise Invalid("The request body must be a JSON object of arguments by name.")
    return arguments


async def read_body(
    request: Request, limit: int, seconds: float = HTTP_BODY_TIMEOUT_SECONDS
) -> AsyncIterator[bytes]:
    """Yield the parts of a body.

    Raises:
        TooLarge: if it has more than `limit` bytes.
        TimedOut: if it takes more than `seconds`, or a part more than HTTP_BODY_TIMEOUT_SECONDS.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise _too_large(limit)
    size, stream = 0, request.stream()
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while True:
        try:
            async with asyncio.timeout_at(min(end, clock() + HTTP_BODY_TIMEOUT_SECONDS)):
                chunk = await anext(stream, None)
        except TimeoutError:
            count_refusal("http_body_timeout")
            passed = seconds if clock() >= end else HTTP_BODY_TIMEOUT_SECONDS
            raise TimedOut(f"The request body timed out after {passed:.0f} s.") from None
        if chunk is None:
            return
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        yield chunk


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"body: must have at most {limit:,} bytes.")
