"""Registration over ssh: a verified key without an agent gets one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from typing_extensions import override

from sshwarma.common.exit_status import EXIT_FAILED, EXIT_OK
from sshwarma.common.limits import (
    MAX_REGISTRATION_ANSWER_CHARACTERS,
    MAX_REGISTRATION_TRIES,
    REGISTRATION_TIMEOUT_SECONDS,
)
from sshwarma.ssh.door.login import UnregisteredUser, WorldAuthenticator
from sshwarma.ssh.door.task_handler import TaskHandler
from sshwarma.ssh.transport.interfaces import Channel, ChannelHandler, Rejected
from sshwarma.terminal.escape import escape_controls
from sshwarma.world.agents import Agent
from sshwarma.world.errors import Invalid, WorldError
from sshwarma.world.invites import InvalidInviteCode


class RegistrationShellHandler(TaskHandler):
    """Shell handler of a newcomer: asks for a name and, in `invite` mode, a code.

    After registration the agent's own shell takes over the channel.

    Args:
        authenticator: registers the newcomer.
        newcomer: the peer, with the key that signed.
        channel: the channel that is taken over.
        make_shell: makes the shell of the agent of that id in the same channel.
    """

    def __init__(
        self,
        authenticator: WorldAuthenticator,
        newcomer: UnregisteredUser,
        channel: Channel,
        make_shell: Callable[[str], ChannelHandler],
    ) -> None:
        super().__init__(channel)
        self._authenticator = authenticator
        self._newcomer = newcomer
        self._make_shell = make_shell
        self._shell: ChannelHandler | None = None
        self._paused = False
        self._answer = ""
        self._answers: asyncio.Queue[str | None] = asyncio.Queue()
        self._start(self._ask_all())

    @override
    def data(self, data: bytes) -> None:
        if self._shell is not None:
            self._shell.data(data)
            return
        for character in data.decode("utf-8", "replace"):
            if character in "\r\n":
                self._say("\r\n")
                self._answers.put_nowait(self._answer)
                self._answer = ""
            elif character in "\x03\x04":
                self._answers.put_nowait(None)
            elif character in "\x7f\x08":
                if self._answer:
                    self._answer = self._answer[:-1]
                    self._say("\b \b")
            elif (
                character.isascii()
                and character.isprintable()
                and len(self._answer) < MAX_REGISTRATION_ANSWER_CHARACTERS
            ):
                self._answer += character
                self._say(character)

    @override
    def eof(self) -> None:
        if self._shell is not None:
            self._shell.eof()
        else:
            self._answers.put_nowait(None)

    @override
    def interrupt(self) -> None:
        if self._shell is not None:
            self._shell.interrupt()
        else:
            self._answers.put_nowait(None)

    @override
    def resized(self, columns: int, rows: int) -> None:
        if self._shell is not None:
            self._shell.resized(columns, rows)

    @override
    def pause(self) -> None:
        self._paused = True
        if self._shell is not None:
            self._shell.pause()

    @override
    def resume(self) -> None:
        self._paused = False
        if self._shell is not None:
            self._shell.resume()

    @override
    def closed(self, error: Exception | None) -> None:
        super().closed(error)
        if self._shell is not None:
            self._shell.closed(error)

    async def _ask_all(self) -> None:
        try:
            agent = await asyncio.wait_for(self._register(), REGISTRATION_TIMEOUT_SECONDS)
        except TimeoutError:
            self._say(f"\r\nTimed out after {REGISTRATION_TIMEOUT_SECONDS:.0f} s.\r\n")
            agent = None
        if agent is None:
            self._channel.exit(EXIT_FAILED)
            return
        self._say(f"Your key is registered: you are {agent.name} here from now on.\r\n\r\n")
        self._hand_over(agent.id)

    def _hand_over(self, agent_id: str) -> None:
        """Start the agent's shell in this channel; it gets what was typed ahead."""
        try:
            shell = self._make_shell(agent_id)
        except Rejected as error:  # disabled at the same moment
            self._say(f"{error.reason}\r\n")
            self._channel.exit(EXIT_FAILED)
            return
        typed, enter = "", "\r" if self._channel.has_pty else "\n"
        is_at_end = False
        while not self._answers.empty():
            answer = self._answers.get_nowait()
            is_at_end = is_at_end or answer is None
            typed += "" if answer is None else f"{answer}{enter}"
        typed += self._answer
        self._shell = shell
        if self._paused:
            shell.pause()
        if typed:
            shell.data(typed.encode())
        if is_at_end:
            shell.eof()

    async def _register(self) -> Agent | None:
        peer = self._newcomer.peer
        self._say(f"{escape_controls(self._newcomer.reason)}\r\n")
        username, code = peer.username, ""
        name: str | None = None
        for _ in range(MAX_REGISTRATION_TRIES):
            if name is None:
                name = await self._ask(f"Your name here [{escape_controls(username)}]: ")
                if name is None:
                    return None
            if self._authenticator.needs_invite and not code:
                answer = await self._ask("Invite code: ")
                if answer is None:
                    return None
                code = answer
            self._newcomer.has_tried = True
            try:
                if self._authenticator.needs_invite:
                    return await self._authenticator.redeem_invite(peer, name or username, code)
                return await self._authenticator.register(peer, name or username)
            except WorldError as error:
                self._say(f"{escape_controls(str(error))}\r\n")
                # Only what was wrong is asked for again.
                if isinstance(error, InvalidInviteCode):
                    code = ""
                else:
                    name = None
        return None

    async def _ask(self, question: str) -> str | None:
        self._say(question)
        answer = await self._answers.get()
        return None if answer is None else answer.strip()

    def _say(self, text: str) -> None:
        self._channel.write(text.encode())


class RegistrationExecHandler(TaskHandler):
    """The handler of `ssh NAME@host register [CODE]`, without a terminal."""

    def __init__(
        self,
        authenticator: WorldAuthenticator,
        newcomer: UnregisteredUser,
        channel: Channel,
        command: str,
    ) -> None:
        super().__init__(channel)
        self._authenticator = authenticator
        self._newcomer = newcomer
        self._start(self._run(command.split()))

    async def _run(self, words: list[str]) -> None:
        peer = self._newcomer.peer
        if not words or words[0].removeprefix("/") != "register":
            usage = (
                "ssh NAME@HOST register CODE"
                if self._authenticator.needs_invite
                else "ssh NAME@HOST register"
            )
            self._channel.write_stderr(
                f"{escape_controls(self._newcomer.reason)} Register: {usage}\n".encode()
            )
            self._channel.exit(EXIT_FAILED)
            return
        self._newcomer.has_tried = True
        try:
            if self._authenticator.needs_invite and len(words) == 1:
                raise Invalid("The invite code is missing: register CODE.")
            if self._authenticator.needs_invite:
                agent = await self._authenticator.redeem_invite(
                    peer, peer.username, " ".join(words[1:])
                )
            else:
                agent = await self._authenticator.register(peer, peer.username)
        except WorldError as error:
            self._channel.write_stderr(f"{escape_controls(str(error))}\n".encode())
            self._channel.exit(EXIT_FAILED)
            return
        self._channel.write(f"Welcome, {agent.name}. Your key is registered.\n".encode())
        self._channel.exit(EXIT_OK)
