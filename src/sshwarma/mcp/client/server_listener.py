"""Effects of a server's events: records change, people are asked and notified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import structlog
from typing_extensions import override

from sshwarma.common.shorten import join_with_rest
from sshwarma.mcp.client import listing_records, server_records
from sshwarma.mcp.client.elicitation import Elicitation
from sshwarma.mcp.client.link import ElicitationRequest, ServerInfo
from sshwarma.mcp.client.oauth_sign_in import OAuthSignIns
from sshwarma.mcp.client.sanitize import ToolListing
from sshwarma.mcp.client.server_events import SupervisorListener
from sshwarma.settings import McpSettings
from sshwarma.world.errors import WorldError
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

MAX_SERVER_TOOL_NAMES: Final = 12
"""Tool names listed in one notice."""


class ServerListener(SupervisorListener):
    """Updates the things of one server from the events of its supervisor."""

    def __init__(
        self,
        world: World,
        elicitation: Elicitation,
        oauth_sign_ins: OAuthSignIns,
        server_id: str,
        settings: McpSettings,
    ) -> None:
        self._world = world
        self._elicitation = elicitation
        self._oauth_sign_ins = oauth_sign_ins
        self._id = server_id
        self._settings = settings
        self._last_reason = ""
        self._was_up = False

    @override
    async def on_up(self, greeting: ServerInfo, listing: ToolListing) -> None:
        self._last_reason, self._was_up = "", True
        changes = await self._world.change(
            lambda tx: listing_records.publish_listing(
                tx, self._id, greeting, listing, trust=self._settings.trust
            )
        )
        if changes.pending:
            log.warning(
                "tools of an mcp server wait for approval",
                server=self._settings.name,
                tools=list(changes.pending)[:20],
            )
            self._notify_admins(changes.pending)

    @override
    async def on_down(self) -> None:
        try:
            await self._world.change(lambda tx: server_records.mark_unavailable(tx, [self._id]))
        except WorldError as error:  # the disk is full, or the world is closing
            log.warning(
                "an mcp server's state could not be stored",
                server=self._settings.name,
                reason=str(error),
            )

    @override
    async def ask(self, person_id: str, question: ElicitationRequest) -> dict[str, Any] | None:
        return await self._elicitation.ask(person_id, self._settings.name, question)

    @override
    def notify(self, person_id: str, text: str) -> None:
        self._elicitation.notify(person_id, self._settings.name, text)

    @override
    def on_sign_in_required(self, reason: str) -> None:
        # A server that was never up is being added, and the verb's result says so.
        if self._was_up and reason != self._last_reason:
            self._last_reason = reason
            self._oauth_sign_ins.notify_owners(self._settings.name, reason)

    def _notify_admins(self, pending: Sequence[str]) -> None:
        """Notify connected owners and admins of pending tools; others see them in /mcp."""
        name = self._settings.name
        names = join_with_rest(pending, MAX_SERVER_TOOL_NAMES)
        text = f"Tools to approve: {names}. Read /mcp show {name}, then /mcp approve {name}."
        for agent in self._world.agents:
            if agent.role in ("owner", "admin"):
                self.notify(agent.id, text)
