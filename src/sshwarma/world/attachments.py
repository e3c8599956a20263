"""Images, sounds and other bytes in tool results, stored beside the log.

The text of the log only names them. A room keeps the newest MAX_ROOM_ATTACHMENT_BYTES of them; the
log still names those that were dropped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, delete, func, insert, select

from sshwarma.common.limits import MAX_CALL_ATTACHMENTS, MAX_ROOM_ATTACHMENT_BYTES
from sshwarma.world.schema import attachments
from sshwarma.world.store import Change

DEFAULT_MEDIA_TYPE: Final = "application/octet-stream"
_MEDIA_TYPE: Final = re.compile(r"[A-Za-z0-9.+-]{1,60}/[A-Za-z0-9.+-]{1,60}")


@dataclass(frozen=True, slots=True)
class Attachment:
    """Bytes, and the media type the tool declared for them."""

    media_type: str
    data: bytes


def parse_media_type(declared: str | None) -> str:
    """Return a media type without parameters; DEFAULT_MEDIA_TYPE if malformed."""
    match = _MEDIA_TYPE.fullmatch((declared or "").partition(";")[0].strip())
    return match[0].lower() if match else DEFAULT_MEDIA_TYPE


def store_attachments(tx: Change, room_id: str, call_id: str, given: Sequence[Attachment]) -> None:
    """Store the attachments of a call; drop the room's oldest ones over the limit."""
    if not given:
        return
    for number, attachment in enumerate(given[:MAX_CALL_ATTACHMENTS], 1):
        tx.conn.execute(
            insert(attachments).values(
                call_id=call_id,
                number=number,
                room_id=room_id,
                kind=attachment.media_type,
                size=len(attachment.data),
                data=attachment.data,
                created_at=tx.now,
            )
        )
    of_room = attachments.c.room_id == room_id
    total = int(tx.conn.scalar(select(func.sum(attachments.c.size)).where(of_room)) or 0)
    query = select(attachments.c.id, attachments.c.size).where(of_room).order_by(attachments.c.id)
    if total > MAX_ROOM_ATTACHMENT_BYTES:
        for row in tx.conn.execute(query).all():
            if total <= MAX_ROOM_ATTACHMENT_BYTES:
                break
            tx.conn.execute(delete(attachments).where(attachments.c.id == row.id))
            total -= row.size


def read_attachment(conn: Connection, call_id: str, number: int) -> Attachment | None:
    """Return one attachment of a call; None if it does not exist or was dropped.

    Attachments are counted from 1.
    """
    query = select(attachments.c.kind, attachments.c.data).where(
        attachments.c.call_id == call_id, attachments.c.number == number
    )
    row = conn.execute(query).first()
    return None if row is None else Attachment(row.kind, bytes(row.data))
