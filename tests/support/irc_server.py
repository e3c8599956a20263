"""A small IRC server: as much of RFC 1459 as a client needs to talk in a channel."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class IrcServer(socketserver.ThreadingTCPServer):
    """Clients by nick, who hear all channels."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        self.clients: dict[str, IrcClient] = {}
        self.said: list[tuple[str, str, str]] = []
        super().__init__(("127.0.0.1", 0), IrcClient)

    @property
    def address(self) -> str:
        """Its HOST:PORT."""
        return f"127.0.0.1:{self.server_address[1]}"

    def say(self, nick: str, channel: str, text: str) -> None:
        """Send a message of a nick to all others who are there."""
        self.said.append((nick, channel, text))
        for name, client in list(self.clients.items()):
            if name != nick:
                client.send(f":{nick}!{nick}@host PRIVMSG {channel} :{text}")


class IrcClient(socketserver.StreamRequestHandler):
    """One connection."""

    server: IrcServer

    def handle(self) -> None:
        """Read commands until the client goes."""
        nick = ""
        for raw in self.rfile:
            command, _, rest = raw.decode().rstrip("\r\n").partition(" ")
            if command == "NICK":
                nick = rest
            elif command == "USER":
                self.send(f":server 001 {nick} :Welcome")
                self.send("PING :are-you-there")
            elif command == "JOIN":
                self.server.clients[nick] = self
                self.send(f":{nick}!{nick}@host JOIN {rest}")
            elif command == "PRIVMSG":
                channel, _, text = rest.partition(" :")
                self.server.say(nick, channel, text)
        self.server.clients.pop(nick, None)

    def send(self, line: str) -> None:
        """Send a line."""
        self.wfile.write(f"{line}\r\n".encode())


@contextmanager
def irc_server() -> Iterator[IrcServer]:
    """Run a server."""
    server = IrcServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
