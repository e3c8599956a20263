"""Registration over ssh: a verified key without an agent gets one."""

from __future__ import annotations

import asyncio

from typing_extensions import override

from sshwarma.common.limits import (
    MAX_REGISTRATION_ANSWER_CHARACTERS,
    MAX_REGISTRATION_TRIES,
    REGISTRATION_TIMEOUT_SECONDS,
)
from sshwarma.ssh.door.login import UnregisteredUser, WorldAuthenticator
from sshwarma.ssh.door.task_handler import TaskHandler
from sshwarma.ssh.transport.interfaces import Channel, ClientLink
from sshwarma.terminal.escape import escape_controls
from sshwarma.world.errors import Conflict, WorldError


class RegistrationShellHandler(TaskHandler):
    """The handler of a newcomer's shell: it asks for a name and, in `invite` mode, an invite code.

    After registration the person logs in again.
    """

    def __init__(
        self,
        authenticator: WorldAuthenticator,
        newcomer: UnregisteredUser,
        link: ClientLink,
        channel: Channel,
    ) -> None:
        super().__init__(channel)
        self._authenticator = authenticator
        self._newcomer = newcomer
        self._link = link
        self._answer = ""
        self._answers: asyncio.Queue[str | None] = asyncio.Queue()
        self._start(self._ask_all())

    @override
    def data(self, data: bytes) -> None:
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
        self._answers.put_nowait(None)

    @override
    def interrupt(self) -> None:
        self._answers.put_nowait(None)

    async def _ask_all(self) -> None:
        try:
            is_registered = await asyncio.wait_for(self._register(), REGISTRATION_TIMEOUT_SECONDS)
        except TimeoutError:
            self._say(f"\r\nTimed out after {REGISTRATION_TIMEOUT_SECONDS:.0f} s.\r\n")
            is_registered = False
        self._channel.exit(0 if is_registered else 1)

    async def _register(self) -> bool:
        peer = self._newcomer.peer
        self._say(f"{escape_controls(self._newcomer.reason)}\r\n")
        username, code = peer.username, ""
        for _ in range(MAX_REGISTRATION_TRIES):
            name = await self._ask(f"Your name here [{escape_controls(username)}]: ")
            if name is None:
                return False
            if self._authenticator.needs_invite and not code:
                answer = await self._ask("Invite code: ")
                if answer is None:
                    return False
                code = answer
            try:
                if self._authenticator.needs_invite:
                    agent = await self._authenticator.redeem_invite(peer, name or username, code)
                else:
                    agent = await self._authenticator.register(peer, name or username)
            except WorldError as error:
                self._say(f"{escape_controls(str(error))}\r\n")
                if not isinstance(error, Conflict):
                    code = ""  # after a taken name the code stays valid and is not asked for again
                continue
            self._say(f"Welcome, {agent.name}. Your key is registered: log in again.\r\n")
            return True
        return False

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
            self._channel.exit(1)
            return
        try:
            if self._authenticator.needs_invite:
                agent = await self._authenticator.redeem_invite(
                    peer, peer.username, " ".join(words[1:])
                )
            else:
                agent = await self._authenticator.register(peer, peer.username)
        except WorldError as error:
            self._channel.write_stderr(f"{escape_controls(str(error))}\n".encode())
            self._channel.exit(1)
            return
        self._channel.write(f"Welcome, {agent.name}. Your key is registered.\n".encode())
        self._channel.exit(0)
