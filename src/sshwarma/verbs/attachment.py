"""The verb `attachment`: images and files of a tool's result."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from sqlalchemy import Connection

from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import RowNumber
from sshwarma.verbs.log_rows import unknown_row_error
from sshwarma.verbs.registry import verb
from sshwarma.verbs.run import MAX_SEARCHED_CALLS
from sshwarma.verbs.views import view_for_reader
from sshwarma.world import attachments, rows
from sshwarma.world.access import Right
from sshwarma.world.attachments import Attachment
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound
from sshwarma.world.reader import Reader
from sshwarma.world.row import Row


@dataclass(frozen=True, slots=True)
class AttachmentData:
    """Attachment `number` of the `of` attachments of a tool result; `data` is base64."""

    seq: int
    number: int
    of: int
    kind: str
    size: int
    data: str


@view_for_reader(AttachmentData)
def draw_attachment_data(attachment: AttachmentData, reader: Reader) -> Block:
    """Draw the kind and size of an attachment, and the command that saves it."""
    reference = (
        f"{attachment.seq}" if attachment.of == 1 else f"{attachment.seq} {attachment.number}"
    )
    hint = f"ssh HOST attachment {reference} > FILE  saves it"
    return block(
        line(
            ("tool", attachment.kind),
            f", {attachment.size:,} bytes ({attachment.number} of {attachment.of})",
        ),
        *([line("  ", ("dim", hint), hang=2)] if reader.is_person else []),
    )


@verb(
    "attachment",
    section="Remembering",
    needs=Right.ENTER,
    tool=False,
    examples=("/attachment", "/attachment 54", "/attachment 54 2"),
)
async def attachment(
    caller: Caller, row: RowNumber | None = None, number: RowNumber | None = None
) -> AttachmentData:
    """Get an image, a sound or a file from the result of a tool.

    A log holds only text. Attachments are stored beside it, the newest
    {MAX_ROOM_ATTACHMENT_BYTES} of each room. In JSON they are base64.

    For people:
        `ssh HOST attachment 54 > FILE` writes the bytes themselves. After `/set images on` a
        terminal shows images (PNG, JPEG, GIF, WebP) as pictures: here, and below the results of
        tools as they come.

    Args:
        row: row number of the tool result (default: the newest that has an attachment).
        number: number of the attachment in that result (default 1).
    """
    return await read_attachment(caller, row, number or 1)


async def read_attachment(caller: Caller, row: int | None, number: int) -> AttachmentData:
    """Read an attachment of a tool result in the caller's room.

    Raises:
        NotFound: if there is no attachment of that number, or it was deleted to save space.
    """

    def read(conn: Connection) -> tuple[Row | None, Attachment | None]:
        if row is None:
            recent = rows.read_tail(conn, caller.room_id, MAX_SEARCHED_CALLS, prefix="tool.")
            result_row = next(
                (call_row for call_row in reversed(recent) if call_row.meta.get("attachments")),
                None,
            )
        else:
            result_row = rows.read_numbered(conn, caller.room_id, row)
        if result_row is None:
            return None, None
        return result_row, attachments.read_attachment(
            conn, str(result_row.meta.get("call_id", "")), number
        )

    result_row, attached_file = await caller.world.store.read(read)
    if result_row is None or not result_row.meta.get("attachments"):
        if row is None:
            raise NotFound("No tool result here has an attachment.")
        if result_row is None:
            raise unknown_row_error(row)
        raise NotFound(f"Row {row} has no attachment.")
    total = len(result_row.meta["attachments"])
    if attached_file is None:
        problem = (
            "was deleted to save space" if number <= total else f"not found: the row has {total}"
        )
        raise NotFound(f"Attachment {number} of row {result_row.seq} {problem}.")
    data = base64.b64encode(attached_file.data).decode()
    return AttachmentData(
        seq=result_row.seq,
        number=number,
        of=total,
        kind=attached_file.media_type,
        size=len(attached_file.data),
        data=data,
    )
