"""A row of the audit as lists show it, without what reads the database."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One row of the audit.

    Attributes:
        n: number of the row; later ones have greater numbers.
        at: time in ISO 8601, UTC.
        agent: name of the agent; of a failed login, whose key or token was refused; None for the
            command line and for strangers.
        os_user: user of the machine who ran a command.
        room_id: where the agent stood.
        door: where it came in; `cli` is the command line on the server, and `server` what the
            server does by itself.
        verb: what was done: a verb, a command, `login` or `login failed`.
        request: the line or the arguments.
        address: of the client, if known.
        fingerprint: of the key that logged in, or was tried last; of a request over HTTP the
            start of the token's id.
        room: name of the room, also of a deleted one; None without a room.
    """

    n: int
    at: str
    agent: str | None
    os_user: str | None
    room_id: str | None
    door: str
    verb: str
    request: str
    address: str | None
    fingerprint: str | None
    room: str | None = None

    def list_cells(self) -> tuple[str, str, str, str, str, str, str]:
        """Return the columns for people: time, door, who, room, verb, request, origin.

        The user of a command stands in parentheses, because an agent may have the same name.
        """
        who = self.agent or (f"({self.os_user})" if self.os_user else "-")
        origin = " ".join(filter(None, (self.address, self.fingerprint)))
        request = self.request.replace("\n", " ")
        return f"{self.at[:19]}Z", self.door, who, self.room or "-", self.verb, request, origin
