"""Which handler a channel gets: a shell, a command, a service, or a newcomer's registration."""

from __future__ import annotations

from functools import partial

from sshwarma.ssh.door.context import House
from sshwarma.ssh.door.exec import Exec
from sshwarma.ssh.door.line_channel import Service
from sshwarma.ssh.door.line_shell import LineShell
from sshwarma.ssh.door.login import Known, Newcomer
from sshwarma.ssh.door.offer import offer
from sshwarma.ssh.door.registration import RegisterExec, RegisterShell
from sshwarma.ssh.door.service_handler import Serving
from sshwarma.ssh.door.shell import Shell
from sshwarma.ssh.transport.ports import Channel, Handler, Link


class WorldSessions:
    """The `ports.Sessions` of a world."""

    def __init__(self, house: House) -> None:
        self._house = house

    def shell(self, link: Link, channel: Channel) -> Handler:
        match link.identity:
            case Newcomer() as newcomer:
                return RegisterShell(self._house.gate, newcomer, link, channel)
            case Known(agent_id) if channel.has_pty:
                return Shell(self._house, agent_id, link, channel)
            case Known(agent_id):
                return LineShell(self._house, agent_id, link, channel)
        raise TypeError(f"no shell for {link.identity!r}")

    def exec(self, link: Link, channel: Channel, command: str) -> Handler:
        match link.identity:
            case Newcomer() as newcomer:
                return RegisterExec(self._house.gate, newcomer, channel, command)
            case Known(agent_id):
                service = self._service(command)
                if service is not None:
                    return Serving(self._house, agent_id, channel, service)
                return Exec(self._house, agent_id, channel, command)
        raise TypeError(f"no command for {link.identity!r}")

    def subsystem(self, link: Link, channel: Channel, name: str) -> Handler | None:
        service = self._service(name)
        if service is None or not isinstance(link.identity, Known):
            return None
        agent_id = link.identity.agent_id
        return Serving(self._house, agent_id, channel, service, waits=True)

    def _service(self, command: str) -> Service | None:
        """A service is called by its name and nothing more: with arguments it is a verb. Only
        `offer`, which is no verb, takes some."""
        words = command.split()
        if words[:1] == ["offer"]:
            return partial(offer, self._house, words[1:])
        return self._house.services.get(command.strip())
