"""Access of who has asked a model: an answer ends when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sshwarma.world.errors import Forbidden
from sshwarma.world.questions import Question
from sshwarma.world.world import World


class AskerLostAccess(Forbidden):
    """Who has asked has lost access, or the room; says which."""


@contextmanager
def while_asker_has_access(world: World, asked: Question, room_id: str) -> Iterator[None]:
    """Cancel the block when who has asked loses the room, or their key or token.

    Raises:
        AskerLostAccess: in place of the cancellation.
    """
    request = world.open_requests.begin(asked.person_id, room_id=room_id, via=asked.via)
    try:
        with request:
            yield
    except Forbidden as error:
        if not request.reason:
            raise
        lost = "access" if request.lost_access else "the room"
        raise AskerLostAccess(f"who asked has lost {lost}") from error
