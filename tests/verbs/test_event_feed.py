"""Streams of events as their doors make them."""

from __future__ import annotations

import pytest

from sshwarma.common.limits import MAX_EVENT_PAGE_CHARACTERS, MAX_EVENT_STREAMS_PER_AGENT
from sshwarma.events.choose_events import open_feed
from sshwarma.events.event_types import HeardEvent, RowEvent, StartEvent
from sshwarma.world.errors import RateLimited
from support.people import Someone, do


def size_of(page: list[HeardEvent]) -> int:
    """The characters of the rows of a page."""
    return sum(len(event.text) for event in page if isinstance(event, RowEvent))


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


async def test_what_waits_is_given_in_pages_of_a_few_characters(alice: Someone) -> None:
    """A client that reads slowly holds one page, and not a thousand rows."""
    text = "x" * 10_000
    feed = await open_feed(alice.caller, types="row", with_own=True)
    reader = feed.read()
    (start,) = await anext(reader)
    assert isinstance(start, StartEvent)
    for _ in range(20):
        await do(alice, text)
    sizes: list[int] = []
    while sum(sizes) < 20 * len(text):
        sizes.append(size_of(await anext(reader)))
    await reader.aclose()
    assert max(sizes) < MAX_EVENT_PAGE_CHARACTERS + len(text)
    assert len(sizes) > 2
    again = (await open_feed(alice.caller, after=start.id, types="row", with_own=True)).read()
    await anext(again)
    assert size_of(await anext(again)) <= MAX_EVENT_PAGE_CHARACTERS
    await again.aclose()
