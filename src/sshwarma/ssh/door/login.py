"""Who may come in: known keys at once, new ones as the registration mode says."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from sshwarma.common.rate_limit import SlidingWindow
from sshwarma.settings import RegistrationSettings
from sshwarma.ssh.transport import ports
from sshwarma.ssh.transport.ports import Peer
from sshwarma.world import agents
from sshwarma.world.errors import WorldError
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

REGISTRATION_WINDOW_SECONDS = 3600.0
MAX_COUNTED_ADDRESSES = 10_000


@dataclass(frozen=True, slots=True)
class UnregisteredUser:
    """Somebody who has proven a key that nobody has yet. They may only register."""

    peer: Peer
    why: str


@dataclass(frozen=True, slots=True)
class RegisteredUser:
    """An agent who has proven one of its keys."""

    agent_id: str


class WorldAuthenticator:
    """The `ports.Gate` of a world."""

    def __init__(self, world: World, registration: RegistrationSettings) -> None:
        self._world = world
        self._registration = registration
        self._registrations = SlidingWindow(
            registration.per_hour_per_address,
            REGISTRATION_WINDOW_SECONDS,
            max_keys=MAX_COUNTED_ADDRESSES,
        )

    def acceptable(self, username: str, fingerprint: str) -> bool:
        agent = self._world.agents.by_key(fingerprint)
        if agent is not None:
            return not agent.disabled
        return self._registration.mode != "closed"

    async def enter(self, peer: Peer) -> RegisteredUser | UnregisteredUser:
        agent = self._world.agents.by_key(peer.fingerprint)
        if agent is not None:
            if agent.disabled:
                raise ports.Rejected("Your account is disabled. Ask an administrator.")
            return RegisteredUser(agent.id)
        match self._registration.mode:
            case "closed":
                raise ports.Rejected("This server takes no new keys. Ask its operator for one.")
            case "invite":
                return UnregisteredUser(peer, "This key is new here, and newcomers need an invite.")
            case "open":
                try:
                    return RegisteredUser((await self.register(peer, peer.username)).id)
                except WorldError as refused:
                    return UnregisteredUser(peer, str(refused))

    async def register(self, peer: Peer, name: str) -> agents.Agent:
        """Make an agent for a newcomer in `open` mode.

        Raises:
            WorldError: if the name cannot be had, or too many came from that address.
        """
        if self._registration.mode != "open":
            raise WorldError("This server takes newcomers only with an invite.")
        self._count(peer.address)
        role = self._registration.role
        agent = await self._world.change(
            lambda tx: agents.register_agent(tx, name, role, peer.fingerprint, peer.public_key)
        )
        log.info("registered", agent=agent.name, fingerprint=peer.fingerprint, by="open")
        return agent

    async def redeem(self, peer: Peer, name: str, code: str) -> agents.Agent:
        """Make an agent for a newcomer who has an invite code.

        Raises:
            WorldError: if the code is no good, or the name cannot be had.
        """
        if self._registration.mode == "closed":
            raise WorldError("This server takes no new keys.")
        self._count(peer.address)
        agent = await self._world.change(
            lambda tx: agents.redeem_invite(tx, code, name, peer.fingerprint, peer.public_key)
        )
        log.info("registered", agent=agent.name, fingerprint=peer.fingerprint, by="invite")
        return agent

    @property
    def needs_invite(self) -> bool:
        return self._registration.mode == "invite"

    def _count(self, address: str) -> None:
        """Count one attempt to register; codes cannot be guessed faster than people arrive."""
        if self._registrations.hit(address) > 0:
            raise WorldError("Too many have registered from your address.", hint="Try in an hour.")
