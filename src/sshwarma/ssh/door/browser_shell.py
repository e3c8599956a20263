"""The shell in a terminal of a browser: that of ssh, without a connection of ssh."""

from __future__ import annotations

from collections.abc import Collection

from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.login import RegisteredUser
from sshwarma.ssh.door.shell import ShellHandler
from sshwarma.ssh.transport.interfaces import Channel, ChannelHandler, Peer
from sshwarma.world.audit import Origin
from sshwarma.world.ids import LOBBY_ID
from sshwarma.world.presence import AgentConnection


class BrowserLink:
    """What a shell asks of its connection; implements `interfaces.ClientLink`.

    The fingerprint of its peer names the session of the browser and no key.
    """

    def __init__(self, agent_id: str, origin: Origin, channel: Channel) -> None:
        self.peer = Peer(origin.address, 0, "", origin.fingerprint, "", "browser")
        self.identity: object = RegisteredUser(agent_id)
        self.channels: Collection[Channel] = (channel,)
        self.closed = False
        self._channel = channel

    def close(self, reason: str) -> None:
        """Show the reason and close the terminal."""
        if not self.closed:
            self.closed = True
            self._channel.write(f"\r\n{reason}\r\n".encode())
            self._channel.close()


class BrowserShells:
    """Opens shells in terminals of browsers, for the console.

    Attributes:
        max_per_agent: terminals of one agent: as many as one ssh key has connections.
        is_stopping: whether shells end because the server stops.
    """

    def __init__(self, context: SshContext, max_per_agent: int) -> None:
        self.max_per_agent = max_per_agent
        self.is_stopping = False
        self._context = context
        context.on_stop.add(self._on_stop)

    def open(
        self, agent_id: str, origin: Origin, channel: Channel, start_room_id: str
    ) -> ChannelHandler:
        """Open a shell for an agent, in a room or, with "", where its shells begin.

        The caller ends it with the session of the browser, by `closed`.

        Raises:
            Forbidden: if the agent is deleted or disabled.
        """
        link = BrowserLink(agent_id, origin, channel)
        here = AgentConnection(agent_id, LOBBY_ID, "web", is_browser_terminal=True)
        return ShellHandler(self._context, agent_id, link, channel, here, start_room_id)

    def _on_stop(self, reason: str) -> None:
        self.is_stopping = True
