"""What tools gave beside text: kept by the room, in bounds."""

from __future__ import annotations

import pytest

from sshwarma.common.limits import MAX_CALL_ATTACHMENTS
from sshwarma.world import attachments, calls
from sshwarma.world.attachments import Attachment, parse_media_type
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import Someone, alice, world

__all__ = ["alice", "world"]


async def give(world: World, alice: Someone, *sizes: int) -> str:
    """Record a call with attachments of `sizes` bytes; return its id."""

    def work(tx: Change) -> str:
        call = calls.record_call_start(
            tx, "lobby", alice.id, "x:y", {}, turn_id=None, parent_row_id=None
        )
        given = [Attachment("image/png", b"x" * size) for size in sizes]
        calls.record_call_end(tx, call, "result", "", None, 0.1, given)
        return call.id

    return await world.change(work)


async def kept(world: World, call_id: str, number: int = 1) -> int | None:
    found = await world.store.read(lambda conn: attachments.read_attachment(conn, call_id, number))
    return None if found is None else len(found.data)


async def test_oldest_attachments_of_a_room_are_dropped(
    world: World, alice: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachments, "MAX_ROOM_ATTACHMENT_BYTES", 100)
    first, second = await give(world, alice, 30, 30), await give(world, alice, 40)
    assert [await kept(world, first), await kept(world, first, 2)] == [30, 30]
    third = await give(world, alice, 20)
    assert [await kept(world, first), await kept(world, first, 2)] == [None, 30]
    assert [await kept(world, second), await kept(world, third)] == [40, 20]


async def test_attachments_per_call_are_limited(world: World, alice: Someone) -> None:
    call = await give(world, alice, *[1] * (MAX_CALL_ATTACHMENTS + 1))
    assert await kept(world, call, MAX_CALL_ATTACHMENTS) == 1
    assert await kept(world, call, MAX_CALL_ATTACHMENTS + 1) is None


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("image/PNG", "image/png"),
        ("text/plain; charset=utf-8", "text/plain"),
        ("image/\x1b[31m", "application/octet-stream"),
        ("", "application/octet-stream"),
        (None, "application/octet-stream"),
    ],
)
def test_media_type_is_parsed(said: str | None, kind: str) -> None:
    assert parse_media_type(said) == kind
