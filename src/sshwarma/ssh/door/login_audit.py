"""The record of logins over ssh: a line of the log and a row of the audit each."""

from __future__ import annotations

import json

import structlog

from sshwarma.common.background import BackgroundTasks
from sshwarma.common.times import format_iso
from sshwarma.ssh.transport.interfaces import FailedLogin, Peer
from sshwarma.world.audit import LOGIN, Origin, record_change
from sshwarma.world.login_keys import AgentKey
from sshwarma.world.store import Change
from sshwarma.world.world import World

log = structlog.get_logger(__name__)


def origin_of(peer: Peer) -> Origin:
    """Return where the requests of a client come from."""
    return Origin(peer.address, peer.fingerprint)


class LoginAudit:
    """Records logins and failed logins, without delaying them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tasks = BackgroundTasks()

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

        def work(tx: Change) -> None:
            record_change(
                tx,
                door="ssh",
                verb=LOGIN,
                request=peer.client,
                agent_id=agent_id,
                origin=origin_of(peer),
            )

        self._tasks.spawn(
            self._world.store.write(work, may_postpone=True),
            name="login audit",
            failed="a login was not recorded in the audit",
        )

    def record_logout(self, peer: Peer, agent_id: str, seconds: float) -> None:
        """Log that a connection of an agent has ended."""
        name = self._world.agents.name_of(agent_id)
        log.info("logout", agent=name, address=peer.address, seconds=round(seconds, 1))

    def record_failure(self, failure: FailedLogin) -> None:
        """Record a client that was not admitted; the transport logs it, too.

        The row has an agent only if a key of theirs was refused that would log in otherwise. The
        user name is what the client sent, which proves nothing.
        """
        tries = f"{failure.tries} {'key' if failure.tries == 1 else 'keys'} tried"
        tries = f"{tries} as {json.dumps(failure.username, ensure_ascii=False)}"
        key = self._find_refused_key(failure)
        if key is None:
            origin = Origin(failure.address, failure.fingerprint)
            self._world.failed_logins.record("ssh", f"{failure.reason}; {tries}", origin)
            return
        name, at = self._world.agents.name_of(key.agent_id), format_iso(key.expires_at or 0)
        state = (
            f"key of {name} expired at {at}" if key.expired else f"account of {name} is disabled"
        )
        origin = Origin(failure.address, key.fingerprint)
        if self._world.failed_logins.record("ssh", f"the {state}; {tries}", origin, key.agent_id):
            log.warning(
                "login refused: the key has expired"
                if key.expired
                else "login refused: the account is disabled",
                agent=name,
                address=failure.address,
                fingerprint=key.fingerprint,
                **({"expired_at": at} if key.expired else {}),
            )

    def record_refused_registration(self, peer: Peer, reason: str) -> None:
        """Record a newcomer who was not registered, as a failed login."""
        failed_logins = self._world.failed_logins
        failed_logins.count("ssh")
        name = json.dumps(peer.username, ensure_ascii=False)
        if failed_logins.record("ssh", f"{name} not registered: {reason}", origin_of(peer)):
            log.warning(
                "registration refused",
                name=peer.username,
                address=peer.address,
                fingerprint=peer.fingerprint,
                reason=reason,
            )

    def _find_refused_key(self, failure: FailedLogin) -> AgentKey | None:
        """Return the first known key that the client offered and that may not log in."""
        for fingerprint in failure.offered or (failure.fingerprint,):
            key = self._world.agents.find_key(fingerprint)
            if key is not None and (key.expired or self._is_disabled(key)):
                return key
        return None

    def _is_disabled(self, key: AgentKey) -> bool:
        agent = self._world.agents.get(key.agent_id)
        return agent is not None and agent.disabled

    async def close(self) -> None:
        """Wait until every login is stored."""
        await self._tasks.join()
