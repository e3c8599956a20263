"""The handler of a service on a channel: `ssh host mcp`, or `ssh -s host mcp`.

Exit status: 0 ended, 1 refused, 70 internal error, 130 interrupted.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog
from typing_extensions import override

from sshwarma.common.exit_status import (
    EXIT_FAILED,
    EXIT_INTERNAL_ERROR,
    EXIT_INTERRUPTED,
    EXIT_OK,
)
from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.ssh.door.context import SshContext, encode_plain_block
from sshwarma.ssh.door.line_channel import LineChannel, LineService
from sshwarma.ssh.door.login_audit import origin_of
from sshwarma.ssh.door.task_handler import StreamHandler
from sshwarma.ssh.transport.interfaces import Channel, ClientLink
from sshwarma.terminal.escape import escape_controls
from sshwarma.verbs.refusal_view import draw_refusal
from sshwarma.world.errors import Invalid, WorldError

log = structlog.get_logger(__name__)


SILENCE_SECONDS: Final = 3.0
"""Seconds without input after which the channel says what it is for."""

SILENT_MESSAGE: Final = (
    b"This channel waits for messages of a program (JSON-RPC). To list MCP servers:"
    b" ssh HOST mcp list. Ctrl-C ends it.\n"
)


class ServiceHandler(StreamHandler):
    """The handler of one service."""

    def __init__(
        self,
        context: SshContext,
        agent_id: str,
        link: ClientLink,
        channel: Channel,
        service: LineService,
        *,
        waits: bool = False,
    ) -> None:
        """Start the service; with `waits`, only after the first bytes have arrived."""
        self._lines = LineChannel(channel)
        super().__init__(channel, self._lines)
        self._context = context
        self._origin = origin_of(link.peer)
        self._service = service
        self._waits = waits
        self._interrupted = False
        self._start(self._run(agent_id))
        context.on_stop.add(self._farewell)

    @override
    def interrupt(self) -> None:
        self._interrupted = True
        super().interrupt()

    def _farewell(self, reason: str) -> None:
        self._channel.write_stderr(escape_controls(reason).encode() + b"\n")
        self._task.cancel()

    async def _warn_if_silent(self) -> None:
        """Explain the channel to a person who waits for it to say something."""
        try:
            await asyncio.wait_for(self._lines.wait_for_input(), SILENCE_SECONDS)
        except TimeoutError:
            self._channel.write_stderr(SILENT_MESSAGE)

    async def _run(self, agent_id: str) -> None:
        status = EXIT_OK
        try:
            if self._waits:
                await self._lines.wait_for_input()
            if self._channel.has_pty:
                raise Invalid(
                    "This channel is for programs, not for terminals.",
                    hint="Programs start it with: ssh -T HOST mcp. To list MCP servers:"
                    " ssh HOST mcp list",
                )
            if not self._waits:
                await self._warn_if_silent()
            await self._service(agent_id, self._origin, self._lines)
        except asyncio.CancelledError:
            status = EXIT_INTERRUPTED if self._interrupted else EXIT_OK
            raise
        except WorldError as error:
            self._channel.write_stderr(
                encode_plain_block(draw_refusal(error), utf8=True, newline="\n")
            )
            status = EXIT_FAILED
        except Exception:
            log.exception("service failed")
            self._channel.write_stderr(f"{INTERNAL_ERROR}\n".encode())
            status = EXIT_INTERNAL_ERROR
        finally:
            self._context.on_stop.discard(self._farewell)
            self._channel.exit(status)
