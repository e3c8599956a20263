"""Posts to servers of others, whose addresses are checked at each connection."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sshwarma
from sshwarma.common.limits import (
    HOOK_TIMEOUT_SECONDS,
    MAX_HOOK_CONNECTIONS,
    MAX_HOOK_CONNECTIONS_PER_AGENT,
    MAX_HOOK_RETRY_SECONDS,
)
from sshwarma.common.shorten import shorten_text
from sshwarma.mcp.client.address import BlockedAddress

if TYPE_CHECKING:
    import httpx2

MAX_READ_ANSWER_BYTES: Final = 1_024
"""Bytes of an answer that are read: the log shows the beginning of a refusal."""

GONE: Final = 410


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a post went.

    Attributes:
        status: of the answer; None if there was none.
        error: why it failed; "" if it arrived.
        retry_after: seconds that the server asked to wait; 0 if it did not.
    """

    status: int | None
    error: str = ""
    retry_after: float = 0.0

    @property
    def is_gone(self) -> bool:
        """Whether the server wants no more posts."""
        return self.status == GONE


class HookSender:
    """Posts for hooks; `close` ends its connections."""

    def __init__(self) -> None:
        self._clients: dict[bool, httpx2.AsyncClient] = {}
        self._opening = asyncio.Lock()
        self._places: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(MAX_HOOK_CONNECTIONS_PER_AGENT)
        )

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, owner_id: str,
        allow_private: bool,
    ) -> Outcome:  # fmt: skip
        """Post a body, and return how it went; nothing is followed and nothing is raised.

        Args:
            url: where to.
            body: what is posted.
            headers: the headers of the request.
            owner_id: whose hook it is; slow servers of one person delay no other's posts.
            allow_private: whether the address may be on this machine or in a private network.
        """
        client = await self._open(allow_private)
        async with self._places[owner_id]:
            return await self._post(client, url, body, headers)

    async def _post(
        self, client: httpx2.AsyncClient, url: str, body: bytes, headers: Mapping[str, str]
    ) -> Outcome:
        try:
            async with (
                asyncio.timeout(HOOK_TIMEOUT_SECONDS),
                client.stream("POST", url, content=body, headers=dict(headers)) as answer,
            ):
                if answer.is_success:
                    return Outcome(answer.status_code)
                text = await _read_start(answer)
                error = f"HTTP {answer.status_code}" + (f": {text}" if text else "")
                if answer.is_redirect:
                    error = f"HTTP {answer.status_code}: redirects are not followed"
                return Outcome(answer.status_code, error, _read_retry_after(answer))
        except TimeoutError:
            return Outcome(None, f"no answer in {HOOK_TIMEOUT_SECONDS:.0f} s")
        except BlockedAddress as error:
            return Outcome(None, error.message)
        except Exception as error:  # noqa: BLE001 - libraries raise many kinds; each is an outcome
            return Outcome(None, shorten_text(str(error) or type(error).__name__))

    async def _open(self, allow_private: bool) -> httpx2.AsyncClient:
        async with self._opening:
            if allow_private not in self._clients:
                make = asyncio.to_thread(_make_client, allow_private)
                self._clients[allow_private] = await make
            return self._clients[allow_private]

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()


def _make_client(allow_private: bool) -> httpx2.AsyncClient:
    """Make a client; imports and reads files, so it runs in a thread."""
    import httpx2

    from sshwarma.mcp.client.sdk._httpx import GuardedTransport
    from sshwarma.mcp.client.sdk.http import CheckedNetworkBackend, make_ssl_context

    transport = GuardedTransport(
        make_ssl_context(), CheckedNetworkBackend(allow_private), MAX_HOOK_CONNECTIONS
    )
    headers = {"User-Agent": f"sshwarma/{sshwarma.__version__}", "Accept-Encoding": "identity"}
    return httpx2.AsyncClient(
        transport=transport, headers=headers, timeout=None, follow_redirects=False
    )


async def _read_start(answer: httpx2.Response) -> str:
    async for part in answer.aiter_raw(MAX_READ_ANSWER_BYTES):
        text = part.decode(errors="replace")
        return shorten_text(" ".join("".join(c if c.isprintable() else " " for c in text).split()))
    return ""


def _read_retry_after(answer: httpx2.Response) -> float:
    """Return the seconds of Retry-After, at most MAX_HOOK_RETRY_SECONDS, or 0."""
    text = answer.headers.get("retry-after", "")
    return min(float(text), MAX_HOOK_RETRY_SECONDS) if text.isdecimal() else 0.0
