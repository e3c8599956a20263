"""Images of tool results, decoded once for a room and the terminals showing them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from sshwarma.common.limits import MAX_IMAGE_BYTES, MAX_RESULT_IMAGES
from sshwarma.settings import ReloadableSettings
from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.room_view import RoomView
from sshwarma.terminal.clock import FrameClock
from sshwarma.terminal.image_decoder import ImageDecoder, UnshowableImage
from sshwarma.terminal.picture import Picture
from sshwarma.terminal.render import DisplayOptions
from sshwarma.terminal.terminal import Terminal, TerminalCallbacks, TerminalOptions
from sshwarma.terminal.text import Block
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.world import agents, attachments, calls
from sshwarma.world.attachments import Attachment
from sshwarma.world.presence import AgentConnection
from sshwarma.world.row import Row
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.images import encode_image, make_picture, paint_flag
from support.people import Someone, alice, world
from support.services import services_in

__all__ = ["alice", "world"]

LOOK = DisplayOptions(80, images="blocks")
FLAG = encode_image(paint_flag())


class Page(Terminal):
    """A terminal that keeps what is printed above its prompt."""

    def __init__(self, clock: FrameClock, **options: Any) -> None:
        nothing: Any = None
        callbacks = TerminalCallbacks(nothing, nothing, nothing, nothing)
        super().__init__(
            lambda data: None, callbacks, TerminalOptions(**options), columns=80, rows=24,
            clock=clock,
        )  # fmt: skip
        self.printed: list[Block] = []

    def print(self, block: Block) -> None:
        self.printed.append(block)

    @property
    def pictures(self) -> list[Block]:
        return [block for block in self.printed if block.has_picture]


class CountingDecoder(ImageDecoder):
    """Decodes nothing: waits for `gate`, and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.decoded: list[bytes] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def decode(self, data: bytes, rows: int) -> Picture:
        self.decoded.append(data)
        await self.gate.wait()
        if data == b"bad":
            raise UnshowableImage("it is bad")
        return make_picture(paint_flag(), rows)


@pytest_asyncio.fixture
async def context(world: World) -> AsyncIterator[SshContext]:
    clock = FrameClock(asyncio.get_running_loop())
    gate: Any = None
    made = SshContext(
        world, services_in(world), gate, ReloadableSettings(), clock, LineRateLimiter(100)
    )
    made.pictures._decoder = CountingDecoder()
    yield made
    await made.flush()


def decoder_of(context: SshContext) -> CountingDecoder:
    decoder = context.pictures._decoder
    assert isinstance(decoder, CountingDecoder)
    return decoder


async def record(world: World, alice: Someone, *given: Attachment) -> Row:
    """Record a tool call with attachments; return the row of its result."""

    def work(tx: Change) -> Row:
        call = calls.record_call_start(
            tx, "lobby", alice.id, "x:y", {}, turn_id=None, parent_row_id=None
        )
        return calls.record_call_end(tx, call, "result", "done", None, 0.1, given)

    return await world.change(work)


def image(data: bytes = FLAG, kind: str = "image/png") -> Attachment:
    return Attachment(kind, data)


async def test_image_is_decoded_once_for_all_terminals_of_a_room(
    world: World, alice: Someone, context: SshContext
) -> None:
    pages = [Page(context.clock, images=mode) for mode in ("blocks", "blocks", "kitty", "off")]
    views = [RoomView(context, AgentConnection(alice.id, "lobby", "ssh"), page) for page in pages]
    for view in views:
        await view.enter("lobby")
    await record(world, alice, image())
    await context.background.join()
    assert len(decoder_of(context).decoded) == 1
    assert [len(page.pictures) for page in pages] == [1, 1, 1, 0]
    (first,), (second,), (third,), _ = (page.pictures for page in pages)
    assert first is second is third
    assert len(first.renderings) == 2  # already drawn, for both kinds of terminal
    for view in views:
        view.close()


async def test_row_of_the_result_stands_above_its_picture(
    world: World, alice: Someone, context: SshContext
) -> None:
    page = Page(context.clock, images="blocks")
    view = RoomView(context, AgentConnection(alice.id, "lobby", "ssh"), page)
    await view.enter("lobby")
    page.printed.clear()
    row = await record(world, alice, image())
    await context.background.join()
    result, picture = page.printed[-2:]
    assert f"✓ x:y 0.1s · /attachment {row.seq}" in result.plain()
    assert picture.plain() == (
        f"  [image of 40 x 20 pixels]\n  image/png, 40 x 20 pixels: /attachment {row.seq}"
    )
    view.close()


async def test_person_who_left_the_room_gets_no_picture(
    world: World, alice: Someone, context: SshContext
) -> None:
    page, gate = Page(context.clock, images="blocks"), decoder_of(context).gate
    view = RoomView(context, AgentConnection(alice.id, "lobby", "ssh"), page)
    await view.enter("lobby")
    gate.clear()
    await record(world, alice, image())
    while not decoder_of(context).decoded:  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0)
    view.close()
    gate.set()
    await context.background.join()
    assert not page.pictures


async def test_hidden_tool_result_shows_no_picture(
    world: World, alice: Someone, context: SshContext
) -> None:
    await world.change(lambda tx: agents.update_agent(tx, alice.id, prefs={"tools": "hidden"}))
    page = Page(context.clock, images="blocks")
    view = RoomView(context, AgentConnection(alice.id, "lobby", "ssh"), page)
    await view.enter("lobby")
    await record(world, alice, image())
    await context.background.join()
    assert not decoder_of(context).decoded
    assert not page.pictures
    view.close()


async def test_only_the_first_images_of_a_result_are_shown(
    world: World, alice: Someone, context: SshContext
) -> None:
    given = [image(kind="audio/wav"), *[image()] * (MAX_RESULT_IMAGES + 2)]
    row = await record(world, alice, *given)
    drawn = await context.pictures.draw_row(row, LOOK)
    assert len(decoder_of(context).decoded) == MAX_RESULT_IMAGES
    calls_shown = [text for text in drawn.plain().split("\n") if "/attachment" in text]
    assert [text.rpartition(": ")[2] for text in calls_shown] == [
        f"/attachment {row.seq} {number}" for number in range(2, MAX_RESULT_IMAGES + 2)
    ]


async def test_image_that_cannot_be_shown_is_a_sentence(
    world: World, alice: Someone, context: SshContext
) -> None:
    row = await record(world, alice, image(b"bad"), image())
    drawn = await context.pictures.draw_row(row, LOOK)
    assert drawn.has_picture
    first, *_ = drawn.plain().split("\n")
    assert first == f"  This image cannot be shown: it is bad. /attachment {row.seq} 1"


async def test_image_over_the_limit_is_not_read(
    world: World, alice: Someone, context: SshContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = await record(world, alice, image(bytes(MAX_IMAGE_BYTES + 1)))
    monkeypatch.delattr(attachments, "read_attachment")
    drawn = await context.pictures.draw_row(row, LOOK)
    assert "bytes, over 8,388,608. /attachment" in drawn.plain()


async def test_deleted_image_is_left_out(
    world: World, alice: Someone, context: SshContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachments, "MAX_ROOM_ATTACHMENT_BYTES", len(FLAG))
    row = await record(world, alice, image())
    await record(world, alice, image())
    assert not (await context.pictures.draw_row(row, LOOK)).lines
    assert not decoder_of(context).decoded
