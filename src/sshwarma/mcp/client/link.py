"""A live connection as the rest of the hub knows it: no word of the SDK, which takes two seconds to
import and is not there until somebody needs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from sshwarma.mcp.client.credentials import CredentialStore
from sshwarma.mcp.client.line_stream import LineStream
from sshwarma.mcp.client.log_buffer import LogBuffer
from sshwarma.mcp.client.sanitize import ToolListing
from sshwarma.settings import McpSettings
from sshwarma.tools.call import ToolResult

ProtocolEra = Literal["auto", "legacy"]
"""How a server is spoken to: by asking what it knows, or by the handshake that old ones know."""

ProgressCallback: TypeAlias = Callable[[str], None]


class LinkLost(Exception):
    """The connection has ended, and with it whatever was asked over it."""


class LinkDoubtful(Exception):
    """An answer will never come, though the connection may still be good."""


class KeyRequired(Exception):
    """The server asks who we are: it has refused what we sent as a key, or that we sent none."""


class SignInRequired(KeyRequired):
    """What it asks for is got by a person who signs in."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server said of itself."""

    version: str  # of the protocol
    server: str  # its name and version
    era: ProtocolEra


@dataclass(frozen=True, slots=True)
class ElicitationField:
    """One thing a server asks of a person. `kind` is string, number, integer, boolean or choices
    (several of `options`); `options` are (value, title)."""

    name: str
    kind: str
    title: str
    required: bool
    default: Any = None
    options: tuple[tuple[str, str], ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ElicitationRequest:
    """What a server asks amid a call: some fields, or to open a page (`url`)."""

    message: str
    fields: tuple[ElicitationField, ...] = ()
    url: str = ""


@dataclass(frozen=True, slots=True)
class LinkCallbacks:
    """What a connection tells whoever holds it. `ask` is awaited for the answers to a question,
    None if it is declined; `of` is the mark of the call it belongs to, where that is known."""

    changed: Callable[[], None]
    ended: Callable[[str], None]
    ask: Callable[[ElicitationRequest, object | None], Awaitable[dict[str, Any] | None]]


class ServerLink(Protocol):
    """A connection that is up."""

    greeting: ServerInfo

    async def tools(self, most: int) -> ToolListing:
        """What the server offers now, mended; the first `most` of it."""

    async def probe(self) -> None:
        """Return if the server answers.

        Raises:
            Exception: if it does not.
        """

    async def call(
        self, tool: str, arguments: dict[str, Any], report: ProgressCallback | None, mark: object
    ) -> ToolResult:
        """Call a tool by the server's name for it.

        Raises:
            LinkLost, LinkDoubtful: if no answer can come.
            KeyRequired: if the server does not let us in any more; nothing was done.
        """


Dialer: TypeAlias = Callable[
    [McpSettings, Path, ProtocolEra, LogBuffer, LinkCallbacks],
    AbstractAsyncContextManager[ServerLink],
]
"""Connects to a server; the folder is where a program starts that has none of its own."""


class SdkDial(Protocol):
    """Connects by way of the SDK: to a server that may have `credentials`, or to the one at the
    other end of `lines`."""

    def __call__(
        self,
        settings: McpSettings,
        folder: Path,
        era: ProtocolEra,
        ring: LogBuffer,
        hooks: LinkCallbacks,
        *,
        lines: LineStream | None = None,
        credentials: CredentialStore | None = None,
    ) -> AbstractAsyncContextManager[ServerLink]: ...
