"""Events of rooms as lines, for a command whose output a program reads."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing, closing

from sshwarma.events.event_feed import EventFeed
from sshwarma.events.event_types import EVENT_ADAPTER, HeardEvent
from sshwarma.ssh.door.context import encode_plain_block
from sshwarma.verbs.events import draw_event


async def write_event_lines(
    feed: EventFeed, *, as_json: bool, utf8: bool, newline: str
) -> AsyncIterator[bytes]:
    """Yield the events of a feed until it ends, as lines of JSON or for people."""
    with closing(feed):
        async with aclosing(feed.read()) as pages:
            async for events in pages:
                if as_json:
                    yield b"".join(_write_json(one, utf8=utf8, newline=newline) for one in events)
                    continue
                for one in events:
                    drawn = draw_event(one)
                    if drawn.lines:
                        yield encode_plain_block(drawn, utf8=utf8, newline=newline)


def _write_json(event: HeardEvent, *, utf8: bool, newline: str) -> bytes:
    """Return an event as one line; what is not printable stays escaped."""
    value = EVENT_ADAPTER.dump_python(event, mode="json")
    text = json.dumps(value, ensure_ascii=not utf8)
    printable = "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)
    return f"{printable}{newline}".encode(errors="replace")
