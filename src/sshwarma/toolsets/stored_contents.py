"""Contents of a bundle in the store of blobs, until its import has succeeded."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from sshwarma.common.finish import finish
from sshwarma.common.reported_error import ReportedError
from sshwarma.workspaces.blobs import BlobStore


@dataclass(slots=True)
class StoredContents:
    """Contents of an import; `are_used` once a row names them."""

    are_used: bool = False


@contextlib.asynccontextmanager
async def storing_contents(
    blobs: BlobStore, contents: Iterable[bytes]
) -> AsyncIterator[StoredContents]:
    """Store contents on the disk for an import in the block.

    If the import is refused, those that it has brought are deleted again, unless somebody else has
    stored the same meanwhile. If it is cancelled, it may be that its change comes nevertheless:
    then the next collection of garbage decides.
    """
    made: list[str] = []

    def store() -> None:
        for content in set(contents):
            made.append(blobs.store(content, is_provisional=True))
        blobs.sync()

    state, is_kept = StoredContents(), True
    try:
        await finish(asyncio.to_thread(store))
        yield state
    except ReportedError:
        is_kept = state.are_used
        raise
    finally:
        await finish(asyncio.to_thread(blobs.settle, made, is_kept=is_kept))
