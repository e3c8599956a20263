"""Work can be stopped until it is done, and not while its result is stored."""

from __future__ import annotations

import asyncio

import pytest

from sshwarma.world.agents import AgentDirectory
from sshwarma.world.errors import Conflict
from sshwarma.world.events import EventBus
from sshwarma.world.open_requests import OpenRequest, OpenRequests, wait_for_ends


@pytest.fixture
def requests() -> OpenRequests:
    return OpenRequests(EventBus(), AgentDirectory())


def begin(requests: OpenRequests) -> OpenRequest:
    return requests.begin("ann", room_id="den", work="`make`")


async def test_work_that_is_done_cannot_be_stopped(requests: OpenRequests) -> None:
    with begin(requests) as request:
        assert requests.list_work("den") == [request]
        request.end_work()
        assert requests.list_work("den") == []


async def test_stop_in_the_moment_of_the_end_cancels_nothing(requests: OpenRequests) -> None:
    with begin(requests) as request:
        request.stop("bob")
        request.end_work()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert (request.reason, request.stopped_by) == ("", "")


async def test_stop_before_the_end_cancels_it(requests: OpenRequests) -> None:
    with (
        pytest.raises(Conflict, match=r"^`make` was stopped by bob\.$"),
        begin(requests) as request,
    ):
        request.stop("bob")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await wait_for_ends([request], 5)


async def test_lost_access_ends_also_what_is_done(requests: OpenRequests) -> None:
    with begin(requests) as request:
        request.end_work()
        request.end_access("Gone.")
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(5)
