"""The choice of a channel's handler: shell, command, service or registration."""

from __future__ import annotations

from functools import partial

from typing_extensions import override

from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.exec import ExecHandler
from sshwarma.ssh.door.line_channel import LineService
from sshwarma.ssh.door.line_shell import LineShellHandler
from sshwarma.ssh.door.login import RegisteredUser, UnregisteredUser
from sshwarma.ssh.door.offer import serve_offer
from sshwarma.ssh.door.registration import RegistrationExecHandler, RegistrationShellHandler
from sshwarma.ssh.door.service_handler import ServiceHandler
from sshwarma.ssh.door.shell import ShellHandler
from sshwarma.ssh.transport.interfaces import (
    Channel,
    ChannelHandler,
    ClientLink,
    HandlerFactory,
    Rejected,
)
from sshwarma.world.errors import Forbidden


class SessionRouter(HandlerFactory):
    """Makes the handlers of shells, commands and subsystems of a world."""

    def __init__(self, context: SshContext) -> None:
        self._context = context

    @override
    def shell(self, link: ClientLink, channel: Channel) -> ChannelHandler:
        match link.identity:
            case UnregisteredUser() as newcomer:
                return RegistrationShellHandler(
                    self._context.authenticator, newcomer, link, channel
                )
            case RegisteredUser(agent_id):
                self._check_enabled(agent_id)
                handler = ShellHandler if channel.has_pty else LineShellHandler
                return handler(self._context, agent_id, link, channel)
        raise TypeError(f"no shell for {link.identity!r}")

    @override
    def exec(self, link: ClientLink, channel: Channel, command: str) -> ChannelHandler:
        match link.identity:
            case UnregisteredUser() as newcomer:
                return RegistrationExecHandler(
                    self._context.authenticator, newcomer, channel, command
                )
            case RegisteredUser(agent_id):
                self._check_enabled(agent_id)
                service = self._service(command)
                if service is not None:
                    return ServiceHandler(self._context, agent_id, channel, service)
                return ExecHandler(self._context, agent_id, channel, command)
        raise TypeError(f"no command for {link.identity!r}")

    @override
    def subsystem(self, link: ClientLink, channel: Channel, name: str) -> ChannelHandler | None:
        service = self._service(name)
        if service is None or not isinstance(link.identity, RegisteredUser):
            return None
        agent_id = link.identity.agent_id
        self._check_enabled(agent_id)
        return ServiceHandler(self._context, agent_id, channel, service, waits=True)

    def _check_enabled(self, agent_id: str) -> None:
        """Raise unless the agent may act; it may have been disabled since its login.

        Raises:
            Rejected: with the reason.
        """
        try:
            self._context.require_agent(agent_id)
        except Forbidden as error:
            raise Rejected(str(error)) from error

    def _service(self, command: str) -> LineService | None:
        """Return the service that a command names, or None if the command is a verb.

        A service takes no arguments, except `offer`: a service name with arguments is a verb.
        """
        words = command.split()
        if words[:1] == ["offer"]:
            return partial(serve_offer, self._context, words[1:])
        return self._context.channels.get(command.strip())
