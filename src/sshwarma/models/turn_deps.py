"""Dependencies of the turn loop, and the contexts that were last sent to models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cachetools import LRUCache

from sshwarma.models.backend import Backend
from sshwarma.models.budget import ModelBudgets
from sshwarma.settings import LimitSettings
from sshwarma.tools.call import Tools
from sshwarma.world.world import World
from sshwarma.wrap.compose import ContextComposer, ModelContext

MAX_LOGGED_CONTEXTS: Final = 256


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
class TurnDeps:
    """Dependencies of the turn loop; `backends` are by agent id."""

    world: World
    tools: Tools
    backends: Mapping[str, Backend]
    limits: LimitSettings
    composer: ContextComposer
    budgets: ModelBudgets
    context_log: ContextLog = field(default_factory=ContextLog)
