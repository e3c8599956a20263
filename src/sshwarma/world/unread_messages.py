"""Which agents have no unread private message.

Known in memory, because every login asks twice.
"""

from __future__ import annotations

from collections import Counter

from sshwarma.world import private_messages
from sshwarma.world.events import RowAppended
from sshwarma.world.row import Row
from sshwarma.world.store import Store


class UnreadMessages:
    """Reads the unread messages of agents, from the store only if there may be any.

    An agent is looked up once; after that its messages are counted as they are stored.
    """

    def __init__(self) -> None:
        self._received: Counter[str] = Counter()  # messages since the start, by agent
        self._read_up_to: dict[str, int] = {}  # the number at which none was unread

    def count_message(self, happened: RowAppended) -> None:
        """Count a row that has been stored, if it is a private message."""
        if happened.row.kind == "tell":
            self._received.update(happened.audience or ())

    async def read_unread(self, store: Store, agent_id: str, limit: int) -> tuple[int, list[Row]]:
        """Return how many messages an agent has not read, and the last `limit` of them."""
        received = self._received[agent_id]  # before the read: a message may come meanwhile
        if self._read_up_to.get(agent_id) == received:
            return 0, []
        count, rows = await store.read(
            lambda conn: private_messages.read_unread(conn, agent_id, limit)
        )
        if not count:
            self._read_up_to[agent_id] = received
        return count, rows

    async def has_unread(self, store: Store, agent_id: str, before_ms: int) -> bool:
        """Return whether an agent has not read a message of that time or earlier."""
        if self._read_up_to.get(agent_id) == self._received[agent_id]:
            return False
        return await store.read(lambda conn: private_messages.has_unread(conn, agent_id, before_ms))
