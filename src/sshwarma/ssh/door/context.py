"""State shared by all handlers of the ssh door, and drawing helpers for them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeAlias

from sshwarma.common.background import BackgroundTasks
from sshwarma.common.secret_detection import is_secret_line
from sshwarma.git.host import GitHost
from sshwarma.services import Services
from sshwarma.settings import ReloadableSettings
from sshwarma.ssh.door.line_channel import LineService
from sshwarma.ssh.door.live_answers import LiveAnswerFeed
from sshwarma.ssh.door.login import WorldAuthenticator
from sshwarma.ssh.door.login_audit import origin_of
from sshwarma.ssh.door.pictures import PictureFeed
from sshwarma.ssh.door.status_line import StatusLines
from sshwarma.ssh.transport.interfaces import ClientLink
from sshwarma.terminal.clock import FrameClock
from sshwarma.terminal.picture import Picture
from sshwarma.terminal.render import render_plain_lines
from sshwarma.terminal.text import Block, Line, Table, block, line, lines_with_head
from sshwarma.verbs.called_verb import find_typed
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.world.agents import Agent
from sshwarma.world.audit import Origin
from sshwarma.world.caller import Caller
from sshwarma.world.doors import Door
from sshwarma.world.errors import Invalid
from sshwarma.world.events import Announcement, PersonalNotice
from sshwarma.world.input_history import append_input_history, read_input_history
from sshwarma.world.presence import AgentConnection
from sshwarma.world.world import World

OpenConsole: TypeAlias = Callable[[socket.socket, tuple[str, int]], Awaitable[None]]

LINES_PER_PIECE: Final = 10_000
"""Lines that are encoded at once: other threads wait for one piece at most."""

INPUT_HISTORY_DELAY_SECONDS: Final = 2.0
"""Delay before typed lines are stored in input histories, all in one unit of work."""


@dataclass(eq=False)
class SshContext:
    """The world and the shared parts of the ssh door.

    Attributes:
        channels: line services by name, which `ssh host NAME` runs instead of a verb.
        on_stop: callbacks that end open channels when the server stops; each takes the reason.
        sftp_clients: the number of clients of sftp.
        open_console: serves HTTP on one end of a pair of sockets, for a client at an address and
            port; None if there is no HTTP server.
    """

    world: World
    services: Services
    authenticator: WorldAuthenticator
    settings: ReloadableSettings
    clock: FrameClock
    line_rate: LineRateLimiter
    status_lines: StatusLines = field(init=False)
    live_answers: LiveAnswerFeed = field(init=False)
    pictures: PictureFeed = field(init=False)
    git: GitHost = field(init=False)
    channels: dict[str, LineService] = field(default_factory=dict)
    background: BackgroundTasks = field(default_factory=BackgroundTasks)
    on_stop: set[Callable[[str], None]] = field(default_factory=set)
    sftp_clients: int = 0
    open_console: OpenConsole | None = None
    _unsaved_input: list[tuple[str, str]] = field(default_factory=list)
    _typed_timer: asyncio.TimerHandle | None = None
    _store_task: asyncio.Task[Any] | None = None

    def __post_init__(self) -> None:
        self.status_lines = StatusLines(self.world, self.background.spawn)
        self.live_answers = LiveAnswerFeed(self.world, self.background.spawn)
        self.pictures = PictureFeed(self.world, self.background.spawn)
        self.git = GitHost(self.world, self.services.workspaces, self.background.spawn)

    def remember_input(self, agent_id: str, typed: str) -> None:
        """Queue a typed line for its agent's history, unless it seems to hold a secret.

        Lines of all agents are stored together after INPUT_HISTORY_DELAY_SECONDS.
        """
        if is_secret_line(typed):
            return
        self._unsaved_input.append((agent_id, typed))
        if self._typed_timer is None:
            loop = asyncio.get_running_loop()
            self._typed_timer = loop.call_later(INPUT_HISTORY_DELAY_SECONDS, self._store_input)

    def _store_input(self) -> None:
        if self._typed_timer is not None:
            self._typed_timer.cancel()
            self._typed_timer = None
        lines, self._unsaved_input = self._unsaved_input, []
        if lines:
            self._store_task = self.background.spawn(
                self.world.store.write(lambda tx: append_input_history(tx, lines))
            )

    async def load_input_history(self, agent_id: str) -> list[str]:
        """Return the lines that the agent typed, oldest first, including queued ones."""
        if any(typer == agent_id for typer, _ in self._unsaved_input):
            self._store_input()
        if self._store_task is not None:
            await asyncio.wait({self._store_task})
        return await self.world.store.read(lambda conn: read_input_history(conn, agent_id))

    async def flush(self) -> None:
        """Store queued input, end decoders, and wait for all background tasks."""
        await self.pictures.close()
        self._store_input()
        await self.background.join()

    def require_agent(self, agent_id: str) -> Agent:
        """Return the agent's current state.

        Raises:
            Forbidden: if the agent is deleted or disabled.
        """
        return self.world.agents.get_enabled(agent_id)

    def make_caller(
        self, agent_id: str, door: Door, origin: Origin, connection: AgentConnection | None = None
    ) -> Caller:
        """Make the caller of a request of an agent.

        Without a `connection` in a room, the request is made in the agent's last room.

        Raises:
            Forbidden: if the agent is deleted or disabled.
        """
        agent = self.require_agent(agent_id)
        room_id = connection.room_id if connection else agent.room_id
        return Caller(
            world=self.world,
            services=self.services,
            limits=self.settings.limits,
            agent=agent,
            room_id=room_id,
            door=door,
            connection=connection,
            origin=origin,
        )

    def make_shell_caller(self, link: ClientLink, connection: AgentConnection) -> Caller:
        """Make the caller of a line in a shell, which acts in the room of its connection.

        Raises:
            Forbidden: if the agent is deleted or disabled.
        """
        return self.make_caller(
            connection.agent_id, connection.door, origin_of(link.peer), connection
        )

    def utf8(self, env: dict[str, str]) -> bool:
        """Return whether a client's locale is UTF-8; True if the client sent no locale."""
        locale = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or "UTF-8"
        return "utf" in locale.lower()


def draw_message(event: PersonalNotice | Announcement) -> Block:
    """Draw a message that is no row: a tool's to one person, or one to everyone."""
    if isinstance(event, Announcement):
        head = ("warn", f"To everyone, from {event.author}")
        return block(*lines_with_head(head, ": ", text=event.text))
    separator = " asks: " if event.hint else ": "
    hint = [line("  ", ("dim", event.hint))] if event.hint else []
    return block(*lines_with_head(("tool", event.sender), separator, text=event.text), *hint)


def is_concurrent_line(typed: str) -> bool:
    """Return whether a line runs at once, without waiting for the line before it."""
    typed_verb = find_typed(typed) if typed.startswith("/") else None
    return typed_verb is not None and typed_verb[0].aside


def decode_text(data: bytes | bytearray, subject: str) -> str:
    """Decode input; `subject` names it in the refusal.

    Raises:
        Invalid: if it is not text. What would be stored of it is not what was sent.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text: byte {error.start} is 0x{data[error.start]:02x}"
    else:
        if "\0" not in text:
            return text
        problem = f"is not text: character {text.index(chr(0))} is NUL"
    raise Invalid(
        f"{subject} {problem}.",
        hint="Encode a file that is not text, with base64 for example.",
    )


def encode_plain_block(drawn: Block, *, utf8: bool, newline: str) -> bytes:
    """Encode a block for a pipe: plain, escaped, ended by a newline unless empty."""
    return encode_plain_lines(drawn.lines, utf8=utf8, newline=newline)


def encode_plain_lines(
    items: Iterable[Line | Table | Picture], *, utf8: bool, newline: str
) -> bytes:
    """Encode lines as `encode_plain_block` does, without holding all of them."""
    lines = render_plain_lines(items, utf8)
    pieces: list[bytes] = []
    while piece := list(islice(lines, LINES_PER_PIECE)):
        pieces.append((newline.join(piece) + newline).encode())
    text = b"".join(pieces)
    return b"" if text == newline.encode() else text
