"""A live connection as the rest of the hub knows it: no word of the SDK, which takes two seconds to
import and is not there until somebody needs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from sshwarma.mcp.client.credentials import Credentials
from sshwarma.mcp.client.line_stream import Lines
from sshwarma.mcp.client.log_buffer import Ring
from sshwarma.mcp.client.sanitize import Listing
from sshwarma.settings import McpSettings
from sshwarma.tools.call import Result

Era = Literal["auto", "legacy"]
"""How a server is spoken to: by asking what it knows, or by the handshake that old ones know."""

Report: TypeAlias = Callable[[str], None]


class LinkLost(Exception):
    """The connection has ended, and with it whatever was asked over it."""


class LinkDoubtful(Exception):
    """An answer will never come, though the connection may still be good."""


class NeedsKey(Exception):
    """The server asks who we are: it has refused what we sent as a key, or that we sent none."""


class NeedsSignIn(NeedsKey):
    """What it asks for is got by a person who signs in."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a server said of itself."""

    version: str  # of the protocol
    server: str  # its name and version
    era: Era


@dataclass(frozen=True, slots=True)
class Field:
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
class Question:
    """What a server asks amid a call: some fields, or to open a page (`url`)."""

    message: str
    fields: tuple[Field, ...] = ()
    url: str = ""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a connection tells whoever holds it. `ask` is awaited for the answers to a question,
    None if it is declined; `of` is the mark of the call it belongs to, where that is known."""

    changed: Callable[[], None]
    ended: Callable[[str], None]
    ask: Callable[[Question, object | None], Awaitable[dict[str, Any] | None]]


class Link(Protocol):
    """A connection that is up."""

    greeting: Greeting

    async def tools(self, most: int) -> Listing:
        """What the server offers now, mended; the first `most` of it."""

    async def probe(self) -> None:
        """Return if the server answers.

        Raises:
            Exception: if it does not.
        """

    async def call(
        self, tool: str, arguments: dict[str, Any], report: Report | None, mark: object
    ) -> Result:
        """Call a tool by the server's name for it.

        Raises:
            LinkLost, LinkDoubtful: if no answer can come.
            NeedsKey: if the server does not let us in any more; nothing was done.
        """


Dial: TypeAlias = Callable[[McpSettings, Path, Era, Ring, Hooks], AbstractAsyncContextManager[Link]]
"""Connects to a server; the folder is where a program starts that has none of its own."""


class DialSigned(Protocol):
    """Connects to a server that may be signed in to."""

    def __call__(
        self,
        settings: McpSettings,
        folder: Path,
        era: Era,
        ring: Ring,
        hooks: Hooks,
        *,
        credentials: Credentials | None,
    ) -> AbstractAsyncContextManager[Link]: ...


class DialOver(Protocol):
    """Connects to the server at the other end of `lines`."""

    def __call__(
        self,
        settings: McpSettings,
        folder: Path,
        era: Era,
        ring: Ring,
        hooks: Hooks,
        *,
        lines: Lines,
    ) -> AbstractAsyncContextManager[Link]: ...
