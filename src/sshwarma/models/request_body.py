"""The body of a request to a provider: recorded when sent, or without sending.

The SDKs of the providers write the body; a hook of their HTTP client reads it there. Headers, which
hold the key, are not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2


@dataclass
class BodyRecord:
    """The body of one request; b"" until it is recorded.

    `is_preview`: the request ends when its body is known, before anything is sent.
    """

    body: bytes = b""
    is_preview: bool = False


class PreviewEnded(Exception):
    """Ends a request whose body is known and which must not be sent."""


_current: ContextVar[BodyRecord | None] = ContextVar("body_record", default=None)


@contextmanager
def preview_body() -> Iterator[BodyRecord]:
    """Record the body of the request that is made inside, and send nothing."""
    record = BodyRecord(is_preview=True)
    token = _current.set(record)
    try:
        yield record
    finally:
        _current.reset(token)


def begin_record() -> BodyRecord:
    """Record the body of the next request of this task.

    A generator may be closed in another context than its own, so nothing is reset: the next record
    takes the place of this one.
    """
    record = BodyRecord()
    _current.set(record)
    return record


async def record_request(request: httpx2.Request) -> None:
    """Hook of a provider's HTTP client: keep the body of a request.

    Raises:
        PreviewEnded: if the request is a preview.
    """
    record = _current.get()
    if record is None:
        return
    record.body = request.content
    if record.is_preview:
        raise PreviewEnded
