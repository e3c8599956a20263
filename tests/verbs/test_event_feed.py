"""Streams of events as their doors make them."""

from __future__ import annotations

import pytest

from sshwarma.common.limits import MAX_EVENT_STREAMS_PER_AGENT
from sshwarma.events.choose_events import open_feed
from sshwarma.world.errors import RateLimited
from support.people import Someone


async def test_stream_that_is_never_read_costs_nothing(alice: Someone) -> None:
    """As if its client had gone before the answer began."""
    for _ in range(2 * MAX_EVENT_STREAMS_PER_AGENT):
        await open_feed(alice.caller)
    assert not alice.world.open_feeds


async def test_streams_are_counted_while_they_are_read(alice: Someone) -> None:
    feeds = [await open_feed(alice.caller) for _ in range(MAX_EVENT_STREAMS_PER_AGENT + 1)]
    readers = [feed.read() for feed in feeds]
    for reader in readers[:-1]:
        assert (await anext(reader))[0].type == "start"
    with pytest.raises(RateLimited, match="Too many open streams"):
        await anext(readers[-1])
    with pytest.raises(RateLimited):
        await open_feed(alice.caller)
    for reader in readers:
        await reader.aclose()
    assert not alice.world.open_feeds
