"""Dependencies of the turn loop, and what was last sent to models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cachetools import LRUCache

from sshwarma.common.units import MIB
from sshwarma.models.backend import Backend
from sshwarma.models.budget import ModelBudgets
from sshwarma.settings import ReloadableSettings
from sshwarma.tools.call import Tools
from sshwarma.world.world import World
from sshwarma.wrap.compose import ContextComposer, ModelContext

MAX_LOGGED_CONTEXTS: Final = 256

MAX_SENT_REQUESTS_BYTES: Final = 32 * MIB
"""Bytes of all the requests that are kept to be looked at."""


class ContextLog:
    """The last context of each model in each room, to compare with the next one.

    The newest MAX_LOGGED_CONTEXTS are kept.
    """

    def __init__(self) -> None:
        self._known: LRUCache[tuple[str, str], ModelContext] = LRUCache(MAX_LOGGED_CONTEXTS)

    def record(self, room_id: str, agent_id: str, composed: ModelContext) -> None:
        """Record the last context that a model was sent in a room."""
        self._known[room_id, agent_id] = composed

    def find_last(self, room_id: str, agent_id: str) -> ModelContext | None:
        """Return the last context that a model was sent in a room, or None."""
        return self._known.get((room_id, agent_id))


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request that was sent.

    Attributes:
        at: when, in Unix milliseconds.
        model: name of the model at its provider.
        body: its JSON body.
        private_room_ids: ids of the private rooms that its context names.
        only_for_id: who asked, if it has private calls, which nobody else may see.
    """

    at: int
    model: str
    body: bytes
    private_room_ids: frozenset[str] = frozenset()
    only_for_id: str | None = None


class SentRequestLog:
    """The last request sent to each model in each room since the server's start.

    The newest MAX_SENT_REQUESTS_BYTES of them are kept.
    """

    def __init__(self) -> None:
        self._sent: LRUCache[tuple[str, str], SentRequest] = LRUCache(
            MAX_SENT_REQUESTS_BYTES, getsizeof=lambda request: len(request.body)
        )

    def record(self, room_id: str, agent_id: str, request: SentRequest) -> None:
        """Record the last request of a model in a room, unless it is too long to be kept."""
        self._sent.pop((room_id, agent_id), None)
        if len(request.body) <= MAX_SENT_REQUESTS_BYTES:
            self._sent[room_id, agent_id] = request

    def find_last(self, room_id: str, agent_id: str) -> SentRequest | None:
        """Return the last request of a model in a room, or None."""
        return self._sent.get((room_id, agent_id))


@dataclass(frozen=True, slots=True)
class TurnDeps:
    """Dependencies of the turn loop; `backends` are by agent id."""

    world: World
    tools: Tools
    backends: Mapping[str, Backend]
    settings: ReloadableSettings
    composer: ContextComposer
    budgets: ModelBudgets
    context_log: ContextLog = field(default_factory=ContextLog)
    sent_requests: SentRequestLog = field(default_factory=SentRequestLog)
