"""The handler of a service on a channel: `ssh host mcp`, or `ssh -s host mcp`.

Exit status: 0 ended, 1 refused, 70 internal error, 130 interrupted.
"""

from __future__ import annotations

import asyncio

import structlog

from sshwarma.ssh.door.context import SshContext, draw_refusal, encode_plain_block
from sshwarma.ssh.door.line_channel import LineChannel, LineService
from sshwarma.ssh.transport.ports import Channel
from sshwarma.world.errors import Invalid, WorldError

log = structlog.get_logger(__name__)


class ServiceHandler:
    """A `ports.ChannelHandler` that runs one service."""

    def __init__(
        self,
        house: SshContext,
        agent_id: str,
        channel: Channel,
        service: LineService,
        *,
        waits: bool = False,
    ) -> None:
        """Start the service; with `waits`, only after the first bytes have arrived."""
        self._house = house
        self._channel = channel
        self._lines = LineChannel(channel)
        self._service = service
        self._waits = waits
        self._interrupted = False
        self._task = asyncio.get_running_loop().create_task(self._run(agent_id))
        house.on_stop.add(self._farewell)

    def data(self, data: bytes) -> None:
        self._lines.data(data)

    def eof(self) -> None:
        self._lines.eof()

    def resized(self, columns: int, rows: int) -> None:
        """Do nothing: a service draws nothing."""

    def interrupt(self) -> None:
        self._interrupted = True
        self._task.cancel()

    def pause(self) -> None:
        self._lines.pause()

    def resume(self) -> None:
        self._lines.resume()

    def closed(self, error: Exception | None) -> None:
        self._lines.closed()
        self._task.cancel()

    def _farewell(self, reason: str) -> None:
        self._channel.write_stderr(reason.encode() + b"\n")
        self._task.cancel()

    async def _run(self, agent_id: str) -> None:
        status = 0
        try:
            if self._waits:
                await self._lines.wait_for_input()
            if self._channel.has_pty:
                raise Invalid(
                    "This service is for programs, not terminals.", hint="Use: ssh -T HOST mcp"
                )
            await self._service(agent_id, self._lines)
        except asyncio.CancelledError:
            status = 130 if self._interrupted else 0
            raise
        except WorldError as refused:
            self._channel.write_stderr(
                encode_plain_block(draw_refusal(refused), utf8=True, newline="\n")
            )
            status = 1
        except Exception:
            log.exception("service failed")
            self._channel.write_stderr(b"Internal error. The server's log has the details.\n")
            status = 70
        finally:
            self._house.on_stop.discard(self._farewell)
            self._channel.exit(status)
