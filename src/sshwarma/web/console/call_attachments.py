"""Images, sounds and files of a result: pictures drawn, others to download."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from markupsafe import Markup

from sshwarma.terminal.image_decoder import UnshowableImage, check_image_size
from sshwarma.verbs.dispatch import invoke
from sshwarma.web.console.picture_drawings import PictureDrawings
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound
from sshwarma.world.row import Row


@dataclass(frozen=True, slots=True)
class DrawnAttachment:
    """An attachment of a result.

    Attributes:
        number: by which it is downloaded, from 1.
        kind: its media type.
        size: its bytes.
        picture: as HTML; None if it is no picture, or cannot be shown.
        problem: why it is not there, or cannot be shown; "" otherwise.
    """

    number: int
    kind: str
    size: int
    picture: Markup | None = None
    problem: str = ""


async def draw_attachments(
    caller: Caller, row: Row | None, pictures: PictureDrawings
) -> list[DrawnAttachment]:
    """Return the attachments of the result in a row."""
    if row is None:
        return []
    return [
        await _draw(caller, row, number, kind, size, pictures)
        for number, (kind, size) in enumerate(row.meta.get("attachments", ()), 1)
    ]


async def _draw(
    caller: Caller, row: Row, number: int, kind: str, size: int, pictures: PictureDrawings
) -> DrawnAttachment:
    if not kind.startswith("image/"):
        return DrawnAttachment(number, kind, size)
    key = f"{row.id} {number}"
    picture = pictures.find(key)
    try:
        if picture is None:
            check_image_size(size)
            picture = await pictures.draw(key, await read_attachment(caller, row.seq, number))
    except (UnshowableImage, NotFound) as error:
        return DrawnAttachment(number, kind, size, problem=str(error))
    return DrawnAttachment(number, kind, size, picture)


async def read_attachment(caller: Caller, seq: int, number: int) -> bytes:
    """Return the bytes of an attachment.

    Raises:
        NotFound: if the result has no such attachment, or it was deleted to save space.
    """
    found = await invoke(caller, "attachment", {"row": seq, "number": number})
    return base64.b64decode(found.data)
