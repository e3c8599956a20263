"""The record of logins: one line of the log and one row of the audit for each."""

from __future__ import annotations

from typing import Final

import structlog

from sshwarma.common.background import BackgroundTasks
from sshwarma.common.rate_limit import SlidingWindow
from sshwarma.common.times import format_iso
from sshwarma.common.units import HOUR_SECONDS
from sshwarma.ssh.transport.interfaces import FailedLogin, Peer
from sshwarma.world.audit import FAILED_LOGIN, LOGIN, Origin, record_change
from sshwarma.world.login_keys import AgentKey
from sshwarma.world.store import Change
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

MAX_FAILURES_PER_ADDRESS: Final = 10
MAX_FAILURES: Final = 1_000
"""Rows of failed logins in FAILURE_WINDOW_SECONDS: strangers cannot fill the disk with them."""

FAILURE_WINDOW_SECONDS: Final = HOUR_SECONDS
MAX_COUNTED_ADDRESSES: Final = 10_000


def origin_of(peer: Peer) -> Origin:
    """Return where the requests of a client come from."""
    return Origin(peer.address, peer.fingerprint)


class LoginAudit:
    """Records logins and failed logins, without delaying them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tasks = BackgroundTasks()
        self._by_address = SlidingWindow(
            MAX_FAILURES_PER_ADDRESS, FAILURE_WINDOW_SECONDS, max_keys=MAX_COUNTED_ADDRESSES
        )
        self._all = SlidingWindow(MAX_FAILURES, FAILURE_WINDOW_SECONDS, max_keys=1)

    def record_login(self, peer: Peer, agent_id: str) -> None:
        """Record that an agent has logged in."""
        name = self._world.agents.name_of(agent_id)
        log.info(
            "login",
            agent=name,
            address=peer.address,
            fingerprint=peer.fingerprint,
            client=peer.client,
        )
        self._record(LOGIN, peer.client, agent_id, origin_of(peer))

    def record_logout(self, peer: Peer, agent_id: str, seconds: float) -> None:
        """Log that a connection of an agent has ended."""
        name = self._world.agents.name_of(agent_id)
        log.info("logout", agent=name, address=peer.address, seconds=round(seconds, 1))

    def record_failure(self, failure: FailedLogin) -> None:
        """Record a client that was not admitted; the log has its own line for it.

        Beyond the limits nothing is recorded. `agent_id` of the row stays empty: a name that a
        stranger sends proves nothing. A key that has expired is named, because its owner will ask.
        """
        expired = self._find_expired(failure)
        if not self._has_room(failure.address, is_known=expired is not None):
            return
        tries = f"{failure.tries} {'key' if failure.tries == 1 else 'keys'} tried"
        reason, fingerprint = failure.reason, failure.fingerprint
        if expired is not None and expired.expires_at is not None:
            name, at = self._world.agents.name_of(expired.agent_id), format_iso(expired.expires_at)
            reason, fingerprint = f"the key of {name} expired at {at}", expired.fingerprint
            log.warning(
                "login refused: the key has expired",
                agent=name,
                address=failure.address,
                fingerprint=fingerprint,
                expired_at=at,
            )
        origin = Origin(failure.address, fingerprint)
        self._record(FAILED_LOGIN, f"{reason}; {tries}", None, origin)

    def record_refused_registration(self, peer: Peer, reason: str) -> None:
        """Record a newcomer who was not registered, as a failed login."""
        log.warning(
            "registration refused",
            address=peer.address,
            fingerprint=peer.fingerprint,
            reason=reason,
        )
        if self._has_room(peer.address):
            self._record(FAILED_LOGIN, f"not registered: {reason}", None, origin_of(peer))

    def _has_room(self, address: str, *, is_known: bool = False) -> bool:
        """Count a failure; return whether it is recorded.

        Strangers share a limit, so that no flood of theirs fills the disk. Those with a known key
        do not: a flood must not hide them.
        """
        if self._by_address.hit(address) > 0:
            return False
        return is_known or self._all.hit("") <= 0

    def _find_expired(self, failure: FailedLogin) -> AgentKey | None:
        """Return the first key that the client offered and that has expired."""
        for fingerprint in failure.offered or (failure.fingerprint,):
            key = self._world.agents.find_key(fingerprint)
            if key is not None and key.expired:
                return key
        return None

    async def close(self) -> None:
        """Wait until everything is stored."""
        await self._tasks.join()

    def _record(self, verb: str, request: str, agent_id: str | None, origin: Origin) -> None:
        def work(tx: Change) -> None:
            record_change(
                tx, door="ssh", verb=verb, request=request, agent_id=agent_id, origin=origin
            )

        self._tasks.spawn(
            self._world.store.write(work, may_postpone=True),
            name="login audit",
            failed="a login was not recorded in the audit",
        )
