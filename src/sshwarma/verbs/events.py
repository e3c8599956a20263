"""The verb events, which prints what happens in rooms as it happens."""

from __future__ import annotations

from typing import Annotated

from sshwarma.events.choose_events import open_feed
from sshwarma.events.event_feed import EventFeed
from sshwarma.events.event_types import (
    AnswerEvent,
    EndEvent,
    FilesEvent,
    HeardEvent,
    MemoryEvent,
    NoticeEvent,
    PresenceEvent,
    RowEvent,
    StartEvent,
    TurnsEvent,
)
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Arg, Flag, complete_rooms
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import view
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid


@verb(
    "events",
    section="Talking",
    needs=Right.ENTER,
    tool=False,
    ssh_only=True,
    examples=("/events",),
)
async def events(
    caller: Caller,
    rooms: Annotated[str, Arg(rest=True, complete=complete_rooms)] = "",
    *,
    after: str = "",
    types: str = "",
    own: Flag = False,
) -> EventFeed:
    """Print what happens in rooms, as it happens, until you stop it.

    Each row has an id: begin again after it with --after ID, and nothing is missed.

    For people:
        From a shell only: `ssh HOST events lab den --json` prints an event a line. Over HTTP,
        GET /api/v1/events has the same events.

    Args:
        rooms: names of rooms (default: the one you are in).
        after: the id of the last event that was heard (default: begin now).
        types: types of events, with commas, such as row,answer (default: all).
        own: whether to hear what you say yourself, too.
    """
    if caller.door != "exec":
        raise Invalid(
            "The screen shows what happens here.", hint="From a shell: ssh HOST events --json"
        )
    names = ",".join(rooms.split())
    is_of_program = caller.wants_json
    return await open_feed(caller, names, after, types, with_own=own, is_of_program=is_of_program)


@view(EventFeed)
def draw_event_feed(feed: EventFeed) -> Block:
    """Draw nothing: a stream is read by its door."""
    return block()


def draw_event(event: HeardEvent) -> Block:
    """Draw an event as a line; nothing for a part of an answer, whose row follows."""
    match event:
        case StartEvent(rooms=rooms):
            return block(line(("dim", f"Hearing {', '.join(rooms)}.")))
        case RowEvent(room=None, speaker=speaker, text=text):
            return block(line(("private", f"{speaker.name} → you"), ": ", text))
        case RowEvent(room=room, kind=kind, speaker=speaker, text=text):
            what = "" if kind in ("chat", "emote") else f" {kind}"
            return block(line(("room", room or ""), " ", ("name", speaker.name), f"{what}: ", text))
        case AnswerEvent():
            return block()
        case PresenceEvent(room=room, here=here):
            return block(line(("room", room), ("dim", f" · here: {', '.join(here) or 'nobody'}")))
        case TurnsEvent(room=room, gone=gone, back=back):
            parts = [f"taken back: {_list(gone)}"] if gone else []
            parts += [f"restored: {_list(back)}"] if back else []
            return block(line(("room", room), ("dim", f" · rows {'; '.join(parts)}")))
        case FilesEvent(room=room, paths=paths):
            return block(
                line(("room", room), ("dim", f" · files: {', '.join(paths) or 'changed'}"))
            )
        case MemoryEvent(room=room, key=key, done=done, by=by):
            return block(line(("room", room), ("dim", f" · memory: {by} {done} {key}")))
        case NoticeEvent(speaker=speaker, text=text):
            return block(line(("notice", f"{speaker.name}: {text}")))
        case EndEvent(room=room, reason=reason):
            return block(line(("warn", f"{room or 'Ended'}: {reason}")))
        case _:
            return block(line(("room", event.room), ("dim", " · changed")))


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
