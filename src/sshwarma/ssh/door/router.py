"""The choice of a channel's handler: shell, command, service or registration."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final
from weakref import WeakSet

from typing_extensions import override

from sshwarma.ssh.door.console import CONSOLE, ConsoleHandler
from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.exec import ExecHandler
from sshwarma.ssh.door.git import GitHandler
from sshwarma.ssh.door.git_command import parse_git_command
from sshwarma.ssh.door.line_channel import LineService
from sshwarma.ssh.door.line_shell import LineShellHandler
from sshwarma.ssh.door.login import RegisteredUser, UnregisteredUser
from sshwarma.ssh.door.offer import serve_offer
from sshwarma.ssh.door.registration import RegistrationExecHandler, RegistrationShellHandler
from sshwarma.ssh.door.service_handler import ServiceHandler
from sshwarma.ssh.door.sftp import SFTP, SftpHandler, explain_copy_program
from sshwarma.ssh.door.shell import ShellHandler
from sshwarma.ssh.transport.interfaces import (
    Channel,
    ChannelHandler,
    ClientLink,
    HandlerFactory,
    Rejected,
)
from sshwarma.world.errors import Forbidden
from sshwarma.world.events import AgentEvicted, KeyExpirySet, KeyRemoved
from sshwarma.world.expiry import seconds_until
from sshwarma.world.login_keys import EXPIRED_KEY_REASON

RESTORE_TERMINAL_SECONDS: Final = 2.0
"""Seconds that a client has to write the last bytes of a terminal before its connection ends."""


class SessionRouter(HandlerFactory):
    """Makes the handlers of shells, commands and subsystems of a world."""

    def __init__(self, context: SshContext) -> None:
        self._context = context
        self._links: WeakSet[ClientLink] = WeakSet()  # those that opened a channel
        self._expiries: dict[str, asyncio.TimerHandle] = {}  # by fingerprint
        context.world.bus.on_event(KeyRemoved, self._on_key_removed)
        context.world.bus.on_event(KeyExpirySet, self._on_expiry_set)
        context.world.bus.on_event(AgentEvicted, self._on_evicted)

    def _on_key_removed(self, event: KeyRemoved) -> None:
        """Close the connections of a key; those with a terminal after it was restored.

        Where somebody removed it with itself, their command has the time to say that it did.
        """
        for link in list(self._links):
            if link.peer.fingerprint == event.fingerprint:
                has_terminal = any(channel.has_pty for channel in link.channels)
                has_asked = bool(event.asked_from) and event.asked_from == link.peer.address
                seconds = RESTORE_TERMINAL_SECONDS if has_terminal or has_asked else 0.0
                asyncio.get_running_loop().call_later(seconds, link.close, event.reason)

    def _on_evicted(self, event: AgentEvicted) -> None:
        """Close the connections of an account where nothing runs that ends itself."""
        if event.room_id is not None:
            return
        for link in list(self._links):
            identity = self._identify(link)
            if isinstance(identity, RegisteredUser) and identity.agent_id == event.agent_id:
                asyncio.get_running_loop().call_later(
                    RESTORE_TERMINAL_SECONDS, _close_idle, link, event.reason
                )

    def _on_expiry_set(self, event: KeyExpirySet) -> None:
        if any(link.peer.fingerprint == event.fingerprint for link in list(self._links)):
            self._watch_expiry(event.fingerprint, event.expires_at)

    def _watch_expiry(self, fingerprint: str, expires_at: int | None) -> None:
        """End the connections of a key when it expires."""
        timer = self._expiries.pop(fingerprint, None)
        if timer is not None:
            timer.cancel()
        if expires_at is not None:
            self._expiries[fingerprint] = asyncio.get_running_loop().call_later(
                seconds_until(expires_at), self._on_expiry, fingerprint
            )

    def _on_expiry(self, fingerprint: str) -> None:
        del self._expiries[fingerprint]
        key = self._context.world.agents.find_key(fingerprint)
        if key is None:  # removed in the meantime
            return
        if key.expired:
            event = KeyRemoved(key.agent_id, fingerprint, EXPIRED_KEY_REASON)
            self._context.world.bus.publish(event)
        else:  # the clocks differ by a little
            self._watch_expiry(fingerprint, key.expires_at)

    @override
    def shell(self, link: ClientLink, channel: Channel) -> ChannelHandler:
        match self._identify(link):
            case UnregisteredUser() as newcomer:
                return RegistrationShellHandler(
                    self._context.authenticator,
                    newcomer,
                    channel,
                    make_shell=partial(self._make_shell, link, channel),
                )
            case RegisteredUser(agent_id):
                return self._make_shell(link, channel, agent_id)
        raise TypeError(f"no shell for {link.identity!r}")

    @override
    def exec(self, link: ClientLink, channel: Channel, command: str) -> ChannelHandler:
        match self._identify(link):
            case UnregisteredUser() as newcomer:
                return RegistrationExecHandler(
                    self._context.authenticator, newcomer, channel, command
                )
            case RegisteredUser(agent_id):
                self._check_access(agent_id, link)
                if reason := explain_copy_program(command):
                    raise Rejected(f"{reason} (ssh HOST help sftp has more).")
                if (git := parse_git_command(command)) is not None:
                    return GitHandler(self._context, agent_id, link, channel, git)
                keeps_going = _parse_batch(command)
                if keeps_going is not None:
                    return LineShellHandler(
                        self._context, agent_id, link, channel, keeps_going=keeps_going
                    )
                service = self._service(command)
                if service is not None:
                    return ServiceHandler(self._context, agent_id, link, channel, service)
                return ExecHandler(self._context, agent_id, link, channel, command)
        raise TypeError(f"no command for {link.identity!r}")

    @override
    def subsystem(self, link: ClientLink, channel: Channel, name: str) -> ChannelHandler | None:
        service, identity = self._service(name), self._identify(link)
        if not isinstance(identity, RegisteredUser):
            return None
        agent_id = identity.agent_id
        if name == SFTP:
            self._check_access(agent_id, link)
            return SftpHandler(self._context, agent_id, link, channel)
        if service is None:
            return None
        self._check_access(agent_id, link)
        return ServiceHandler(self._context, agent_id, link, channel, service, waits=True)

    @override
    def check_forward(self, link: ClientLink, host: str, port: int) -> None:
        if (host, port) != CONSOLE or self._context.open_console is None:
            raise Rejected(f"only {CONSOLE[0]}:{CONSOLE[1]} is forwarded, if this server has it")
        self._check_access(self._find_registered(link), link)

    @override
    def forward(self, link: ClientLink, channel: Channel) -> ChannelHandler:
        return ConsoleHandler(self._context, self._find_registered(link), link, channel)

    def _find_registered(self, link: ClientLink) -> str:
        """Return the id of the agent of a connection that forwards."""
        identity = self._identify(link)
        if not isinstance(identity, RegisteredUser):
            raise Rejected("register first: connect without a command")
        return identity.agent_id

    def _identify(self, link: ClientLink) -> object:
        """Return a connection's identity; a newcomer may have registered since login."""
        identity = link.identity
        if isinstance(identity, UnregisteredUser):
            agent = self._context.world.agents.find_by_key(identity.peer.fingerprint)
            return identity if agent is None else RegisteredUser(agent.id)
        return identity

    def _make_shell(self, link: ClientLink, channel: Channel, agent_id: str) -> ChannelHandler:
        self._check_access(agent_id, link)
        handler = ShellHandler if channel.has_pty else LineShellHandler
        return handler(self._context, agent_id, link, channel)

    def _check_access(self, agent_id: str, link: ClientLink) -> None:
        """Raise unless the agent may act with the key of its connection.

        It may have been disabled, or the key removed or expired, since its login.

        Raises:
            Rejected: with the reason.
        """
        self._links.add(link)
        try:
            self._context.require_agent(agent_id)
        except Forbidden as error:
            raise Rejected(str(error)) from error
        key = self._context.world.agents.find_key(link.peer.fingerprint)
        if key is None or key.agent_id != agent_id:
            raise Rejected(KeyRemoved(agent_id, link.peer.fingerprint).reason)
        if key.expired:
            raise Rejected(EXPIRED_KEY_REASON)
        if key.expires_at is not None and key.fingerprint not in self._expiries:
            self._watch_expiry(key.fingerprint, key.expires_at)

    def _service(self, command: str) -> LineService | None:
        """Return the service that a command names, or None if the command is a verb.

        A service takes no arguments, except `offer`: a service name with arguments is a verb.
        """
        words = command.split()
        if words[:1] == ["offer"]:
            return partial(serve_offer, self._context, words[1:])
        return self._context.channels.get(command.strip())


def _close_idle(link: ClientLink, reason: str) -> None:
    if not link.channels and not link.closed:
        link.close(reason)


def _parse_batch(command: str) -> bool | None:
    """Return whether `batch` has `--keep-going`; None if the command is no batch.

    Raises:
        Rejected: if it has other words.
    """
    words = command.split()
    if words[:1] != ["batch"]:
        return None
    if words[1:] not in ([], ["--keep-going"]):
        raise Rejected("Usage: ssh HOST batch [--keep-going] < FILE")
    return len(words) == 2
