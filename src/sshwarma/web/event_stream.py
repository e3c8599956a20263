"""`GET /api/v1/events`: what happens in rooms, as server-sent events.

The id of an event is a cursor: a client that connects again with it, as `Last-Event-ID` or as
`after`, hears every row since, each once.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from functools import lru_cache
from typing import Any, Final

from starlette.responses import StreamingResponse

from sshwarma.events.choose_events import open_feed
from sshwarma.events.event_feed import EventFeed
from sshwarma.events.event_types import (
    EVENT_ADAPTER,
    EndEvent,
    HeardEvent,
    RowEvent,
    StartEvent,
)
from sshwarma.web.server_sent import KEEP_ALIVE_COMMENT, KEEP_ALIVE_SECONDS, stream_events
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Forbidden, Invalid, RateLimited
from sshwarma.world.open_requests import OpenRequest
from sshwarma.world.reader import API_CLIENT

RETRY_MS: Final = 2_000
"""Milliseconds after which a client connects again."""

QUERY: Final[Mapping[str, str]] = {
    "rooms": "names of rooms, with commas (default: the agent's last room)",
    "after": "id of the last event that was heard (default: now); also the header Last-Event-ID",
    "types": "types of events, with commas (default: all)",
    "own": "true to hear what the agent says itself, too (default: false)",
}
"""The arguments of a request, with what they are for."""


async def open_event_feed(
    caller: Caller, query: Mapping[str, str], last_event_id: str | None
) -> EventFeed:
    """Return what a request wants to hear.

    Raises:
        Invalid: if an argument is unknown or malformed.
        NotFound, Forbidden: if the caller may not enter a room.
    """
    for name in query:
        if name not in QUERY and name != "room":
            raise Invalid(f"{name}: unknown argument.", hint=f"Arguments: {', '.join(QUERY)}.")
    own = query.get("own", "false")
    if own not in ("true", "false"):
        raise Invalid("own: must be true or false.")
    return await open_feed(
        caller,
        query.get("rooms", ""),
        # A browser that connects again sends the header, and the query of the first time.
        last_event_id or query.get("after", ""),
        query.get("types", ""),
        with_own=own == "true",
    )


def respond(feed: EventFeed, open_request: OpenRequest) -> StreamingResponse:
    """Return the response, which lasts until the client, access or feed ends.

    `open_request` ends when the token is revoked.
    """
    return stream_events(_read(feed, open_request))


async def _read(feed: EventFeed, open_request: OpenRequest) -> AsyncIterator[bytes]:
    with contextlib.closing(feed):
        try:
            with open_request:
                yield f"retry: {RETRY_MS}\n\n".encode()
                async with contextlib.aclosing(feed.read(KEEP_ALIVE_SECONDS)) as pages:
                    async for events in pages:
                        yield b"".join(map(encode_event, events)) or KEEP_ALIVE_COMMENT
        except (Forbidden, Conflict) as error:
            yield encode_event(EndEvent(None, error.message, again=False))
        except (Invalid, RateLimited) as error:  # the response has begun
            again = isinstance(error, RateLimited)
            yield encode_event(EndEvent(None, error.text_for(API_CLIENT), again))


def encode_event(event: HeardEvent) -> bytes:
    """Return a server-sent event: its type as `event`, and itself as JSON."""
    return _encode_row(event) if isinstance(event, RowEvent) else _encode(event)


def _encode(event: HeardEvent) -> bytes:
    data: bytes = EVENT_ADAPTER.dump_json(event)
    head = f"id: {event.id}\n" if isinstance(event, StartEvent | RowEvent) else ""
    return f"{head}event: {event.type}\ndata: ".encode() + data + b"\n\n"


_encode_row = lru_cache(maxsize=64)(_encode)
"""Cached, as most listeners hear the same event of a row."""


def describe_query() -> list[dict[str, Any]]:
    """Return the arguments for the description of the API."""
    return [
        {
            "name": name,
            "in": "query",
            "description": about,
            "schema": {"type": "boolean" if name == "own" else "string"},
        }
        for name, about in QUERY.items()
    ]
