"""Interface of a live connection, without the SDK.

The SDK takes two seconds to import and is loaded only when a server is connected.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from sshwarma.mcp.client.credentials import CredentialStore
from sshwarma.mcp.client.log_buffer import LogBuffer
from sshwarma.mcp.client.sanitize import ToolListing
from sshwarma.mcp.line_stream import LineStream
from sshwarma.sandbox.run import Sandbox
from sshwarma.settings import McpSettings
from sshwarma.tools.provider import ToolResult

ProtocolEra = Literal["auto", "legacy"]
"""Protocol negotiation: version discovery, or only the handshake of older servers."""

ProgressCallback: TypeAlias = Callable[[str], None]


class LinkLost(Exception):
    """The connection ended, and all its pending requests failed."""


class ResponseLost(Exception):
    """A response will never arrive, but the connection may still work."""


class KeyRequired(Exception):
    """The server requires a key: ours is missing or was rejected."""


class SignInRequired(KeyRequired):
    """The server requires a person to sign in."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Versions, name, era and instructions that a server reported when it connected."""

    version: str  # protocol version
    server: str  # name and version of the server
    era: ProtocolEra
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class ElicitationField:
    """One field of a form that a server asks a person to fill in.

    `kind` is string, number, integer, boolean or choices (several of `options`); `options` are
    (value, title) pairs.
    """

    name: str
    kind: str
    title: str
    required: bool
    default: Any = None
    options: tuple[tuple[str, str], ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ElicitationRequest:
    """A server's question during a call: form fields, or a page to open (`url`)."""

    message: str
    fields: tuple[ElicitationField, ...] = ()
    url: str = ""


@dataclass(frozen=True, slots=True)
class LinkCallbacks:
    """Callbacks of a connection.

    Attributes:
        on_listing_changed: The tool listing has changed.
        on_ended: The connection ended, with the reason.
        on_elicitation: Asks a question of the server. Takes the mark of the call it belongs to, if
            known; returns the answers, or None if it was declined.
    """

    on_listing_changed: Callable[[], None]
    on_ended: Callable[[str], None]
    on_elicitation: Callable[[ElicitationRequest, object | None], Awaitable[dict[str, Any] | None]]


class ServerLink(Protocol):
    """A live connection to a server."""

    greeting: ServerInfo

    async def tools(self, limit: int) -> ToolListing:
        """Return the server's tool listing, sanitized; at most `limit` tools."""

    async def probe(self) -> None:
        """Check that the server responds.

        Raises:
            Exception: if it does not.
        """

    async def call(
        self, tool: str, arguments: dict[str, Any], report: ProgressCallback | None, mark: object
    ) -> ToolResult:
        """Call a tool by the server's name for it.

        Raises:
            LinkLost: if the connection ended.
            ResponseLost: if no response will arrive.
            KeyRequired: if the server rejected our key; the tool was not called.
        """


Dialer: TypeAlias = Callable[
    [McpSettings, Path, ProtocolEra, LogBuffer, LinkCallbacks],
    AbstractAsyncContextManager[ServerLink],
]
"""Connects to a server; the path is the default working directory of a program."""


class SandboxOpener(Protocol):
    """Starts the program of a server in a sandbox."""

    def __call__(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Sandbox]:
        """Start it; leaving the context ends it.

        Raises:
            Unavailable: if there can be no sandbox.
        """


class SdkDial(Protocol):
    """Connects with the SDK to a configured server, or to an offered one on `lines`."""

    def __call__(
        self,
        settings: McpSettings,
        folder: Path,
        era: ProtocolEra,
        log_buffer: LogBuffer,
        callbacks: LinkCallbacks,
        *,
        lines: LineStream | None = None,
        credentials: CredentialStore | None = None,
        sandbox: SandboxOpener | None = None,
    ) -> AbstractAsyncContextManager[ServerLink]:
        """Connect; leaving the context disconnects."""
