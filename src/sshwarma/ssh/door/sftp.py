"""The handler of the subsystem sftp: what `sftp`, `scp` and `sshfs` start.

Exit status: 0 ended, 1 refused.
"""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from sshwarma.common.exit_status import EXIT_FAILED, EXIT_OK
from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.login_audit import origin_of
from sshwarma.ssh.door.sftp_files import ClientFiles
from sshwarma.ssh.door.task_handler import TaskHandler
from sshwarma.ssh.transport.interfaces import Channel, ClientLink
from sshwarma.ssh.transport.sftp import serve_sftp
from sshwarma.ssh.transport.sftp_stream import SftpStream
from sshwarma.terminal.escape import escape_controls
from sshwarma.world.errors import WorldError

SFTP: Final = "sftp"

COPY_PROGRAMS: Final = {
    "rsync": (("--server",), "rsync works here through sshfs: mount a room with sshfs first"),
    "scp": (("-t", "-f"), "scp works here without -O: it then uses sftp"),
}
"""Programs that other clients start on the far side: the flags that say so, and what to do here."""


def explain_copy_program(command: str) -> str:
    """Return why the command of a copying program does not work here; "" for others."""
    words = command.split()
    name = words[0].rpartition("/")[2] if words else ""
    if name in ("sftp-server", "internal-sftp"):
        return "sftp works here as the subsystem of that name: sftp HOST, without -s"
    flags, reason = COPY_PROGRAMS.get(name, ((), ""))
    return reason if any(word in flags for word in words[1:]) else ""


class SftpHandler(TaskHandler):
    """The handler of one client of sftp."""

    def __init__(
        self, context: SshContext, agent_id: str, link: ClientLink, channel: Channel
    ) -> None:
        super().__init__(channel)
        self._context = context
        self._agent_id = agent_id
        self._stream = SftpStream(channel)
        self._files = ClientFiles(context, agent_id, origin_of(link.peer), self._write_error)
        context.on_stop.add(self._farewell)
        context.sftp_clients += 1
        # Not a task of the connection: what the client has closed becomes a version without it.
        self._task = context.background.spawn(self._run(), name="sftp")

    @override
    def data(self, data: bytes) -> None:
        self._stream.data(data)

    @override
    def eof(self) -> None:
        self._stream.end()

    @override
    def interrupt(self) -> None:
        self._stream.end()

    @override
    def pause(self) -> None:
        self._stream.pause()

    @override
    def resume(self) -> None:
        self._stream.resume()

    @override
    def closed(self, error: Exception | None) -> None:
        self._stream.drop()

    async def _run(self) -> None:
        status = EXIT_OK
        try:
            status = await self._serve()
        finally:
            self._context.on_stop.discard(self._farewell)
            self._context.sftp_clients -= 1
            try:
                await self._files.end()
            finally:
                self._channel.exit(status)

    async def _serve(self) -> int:
        try:
            with self._context.world.open_requests.begin(self._agent_id):
                await self._context.line_rate.admit(self._agent_id, is_read=True)
                await serve_sftp(self._stream, self._files)
        except WorldError as error:
            self._write_error(str(error))
            return EXIT_FAILED
        return EXIT_OK

    def _farewell(self, reason: str) -> None:
        self._write_error(reason)
        self._stream.drop()

    def _write_error(self, text: str) -> None:
        self._channel.write_stderr(escape_controls(text).encode() + b"\n")
