"""The handler of `git clone`, `git fetch` and `git push` of a room's files.

A refusal is a line of git's protocol, so that a client shows it as `fatal: remote error: ...`.

Exit status: 0 ended, 1 refused, 70 internal error, 130 interrupted.
"""

from __future__ import annotations

import asyncio

import structlog
from typing_extensions import override

from sshwarma.common.exit_status import (
    EXIT_FAILED,
    EXIT_INTERNAL_ERROR,
    EXIT_INTERRUPTED,
    EXIT_OK,
)
from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.git.access import GitAccess
from sshwarma.git.pkt_line import encode_error
from sshwarma.git.service_names import FETCH, PUSH
from sshwarma.ssh.door.byte_channel import ByteChannel
from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.git_command import ARCHIVE, USAGE, GitCommand
from sshwarma.ssh.door.login_audit import origin_of
from sshwarma.ssh.door.task_handler import StreamHandler
from sshwarma.ssh.transport.interfaces import Channel, ClientLink
from sshwarma.terminal.escape import escape_controls
from sshwarma.verbs.dispatch import check_may_change_files
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound, WorldError
from sshwarma.world.open_requests import OpenRequest

log = structlog.get_logger(__name__)


class GitHandler(StreamHandler):
    """The handler of one clone, fetch or push."""

    def __init__(
        self,
        context: SshContext,
        agent_id: str,
        link: ClientLink,
        channel: Channel,
        command: GitCommand,
    ) -> None:
        self._stream = _AnsweredChannel(channel)
        super().__init__(channel, self._stream)
        self._context = context
        self._agent_id = agent_id
        self._origin = origin_of(link.peer)
        self._command = command
        context.on_stop.add(self._farewell)
        self._start(self._run())

    def _farewell(self, reason: str) -> None:
        self._say(reason)
        self._task.cancel()

    async def _run(self) -> None:
        status = EXIT_OK
        try:
            await self._serve()
        except asyncio.CancelledError:
            status = EXIT_INTERRUPTED
            raise
        except ConnectionError:
            status = EXIT_FAILED  # the client has gone, or does not speak the protocol
        except WorldError as error:
            self._say(str(error))
            status = EXIT_FAILED
        except Exception:
            log.exception("git failed")
            self._say(INTERNAL_ERROR)
            status = EXIT_INTERNAL_ERROR
        finally:
            self._context.on_stop.discard(self._farewell)
            self._channel.exit(status)

    async def _serve(self) -> None:
        if self._channel.has_pty:
            raise Invalid("This is for git, not for terminals.", hint=f"On your machine: {USAGE}")
        is_push = self._command.program == PUSH
        await self._context.line_rate.admit(
            self._agent_id, is_read=not is_push, after="run the command again"
        )
        with self._context.world.open_requests.begin(self._agent_id) as request:
            caller = self._context.make_caller(self._agent_id, "exec", self._origin)
            if self._command.program == ARCHIVE:
                raise Invalid("git archive does not work here.", hint="Clone the room instead.")
            if not self._command.room:
                raise NotFound("A repository here is the files of a room.", hint=USAGE)
            caller = await caller.in_room(self._command.room)
            access: GitAccess = _PushAccess(request) if is_push else _FetchAccess(request)
            caller = await access.check(caller)
            request.begin_work(caller.room_id, "git push" if is_push else "git fetch")
            service = PUSH if is_push else FETCH
            await self._context.git.serve(caller, service, self._stream, access)

    def _say(self, text: str) -> None:
        """Tell the client something: in the protocol, if nothing of that was sent yet."""
        if self._stream.was_answered or self._channel.has_pty:
            self._channel.write_stderr(escape_controls(text).encode() + b"\n")
        else:
            self._channel.write(encode_error(escape_controls(text)))


class _FetchAccess(GitAccess):
    """The rights of a clone or fetch."""

    def __init__(self, request: OpenRequest) -> None:
        self._request = request

    @override
    async def check(self, caller: Caller) -> Caller:
        return await caller.refreshed()

    @override
    def begin_storing(self) -> None:
        self._request.end_work()


class _PushAccess(_FetchAccess):
    """The rights of a push: those of `file put`."""

    @override
    async def check(self, caller: Caller) -> Caller:
        caller = await super().check(caller)
        await check_may_change_files(caller)
        return caller


class _AnsweredChannel(ByteChannel):
    """A channel that knows whether something was sent."""

    was_answered = False

    @override
    async def write(self, data: bytes) -> None:
        self.was_answered = True
        await super().write(data)
