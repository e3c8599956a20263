"""`/stop` says what became of each call and command."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from sshwarma.verbs import stop
from sshwarma.verbs.views import Confirmation
from sshwarma.world.errors import Conflict
from sshwarma.world.open_requests import OpenRequest
from support.people import Someone, do


def begin(alice: Someone, name: str) -> OpenRequest:
    return alice.world.open_requests.begin(alice.id, room_id=alice.room_id, work=name)


async def test_only_what_has_ended_is_called_stopped(
    alice: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop, "STOP_TIMEOUT_SECONDS", 0.05)
    end = asyncio.Event()

    async def work(name: str, *, hears: bool) -> None:
        with contextlib.suppress(Conflict), begin(alice, name):
            while not end.is_set():
                try:
                    await end.wait()
                except asyncio.CancelledError:
                    if hears:
                        raise

    async with asyncio.TaskGroup() as group:
        group.create_task(work("kit:ends", hears=True))
        group.create_task(work("kit:stays", hears=False))
        await asyncio.sleep(0)
        result = await do(alice, "/stop")
        end.set()
    assert isinstance(result, Confirmation)
    assert result.text == "Stopped kit:ends. Not ended yet: kit:stays."


async def test_call_that_is_done_in_this_moment_is_not_called_stopped(
    alice: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = asyncio.Event()

    def stop_at_the_end(by: str) -> None:
        OpenRequest.stop(request, by)
        request.end_work()
        done.set()

    with begin(alice, "kit:ends") as request:
        monkeypatch.setattr(request, "stop", stop_at_the_end)
        stopping = asyncio.create_task(do(alice, f"/stop {request.number}"))
        await done.wait()
    result = await stopping
    assert isinstance(result, Confirmation)
    assert result.text == "Done before it was stopped: kit:ends."
