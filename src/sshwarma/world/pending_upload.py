"""A content that comes with a request, as the layers below the files see it."""

from __future__ import annotations

from typing import Protocol


class PendingUpload(Protocol):
    """A content that arrived with a request and is not stored yet."""

    @property
    def size(self) -> int:
        """Its bytes."""
        ...

    def read(self) -> bytes:
        """Return it without storing it, after the last part. Blocks."""
        ...

    def finish(self) -> str:
        """Store it; return its SHA-256. Blocks."""
        ...
