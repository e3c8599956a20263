"""Files whose content is missing or damaged, as refusals and checks name them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from sshwarma.workspaces.blobs import DamagedBlob
from sshwarma.workspaces.manifests import shorten_id

LOST_CONTENT_HINT: Final = (
    "Put the same file again, or let the operator bring its content from a backup."
)


def name_file(path: str, room: str, version: str | None) -> str:
    """Return what names a file of a version: "plan.md in lobby, version 1f03ac".

    Args:
        path: of the file.
        room: name of the room.
        version: the id of the version, or the end of it; None for any.
    """
    of_version = f", version {shorten_id(version)}" if version else ""
    return f"{path} in {room}{of_version}"


@contextlib.contextmanager
def naming_damaged_file(path: str, room: str, version: str | None = None) -> Iterator[None]:
    """Name a file in the refusal of its content, which has a hash alone.

    The arguments are those of `name_file`.

    Raises:
        DamagedBlob: if the content is missing or damaged.
    """
    try:
        yield
    except DamagedBlob as error:
        name = name_file(path, room, version)
        raise DamagedBlob(
            f"A content is missing or damaged in the data directory: {name}.",
            hint=LOST_CONTENT_HINT,
        ) from error
