"""Key authentication: known keys are admitted, new ones by the registration mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog
from typing_extensions import override

from sshwarma.common.limits import REGISTRATION_WINDOW_SECONDS
from sshwarma.common.rate_limit import SlidingWindow
from sshwarma.common.refusals import count_refusal
from sshwarma.settings import ReloadableSettings
from sshwarma.ssh.door.login_audit import LoginAudit, origin_of
from sshwarma.ssh.transport.interfaces import Authenticator, FailedLogin, Peer, Rejected
from sshwarma.world import agents, invites
from sshwarma.world.agents import ACCOUNT_DISABLED_REASON
from sshwarma.world.audit import record_change
from sshwarma.world.errors import WorldError
from sshwarma.world.store import Change
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

MAX_COUNTED_ADDRESSES = 10_000


@dataclass(slots=True, eq=False)
class UnregisteredUser:
    """A peer with a verified key that belongs to no agent; it may only register.

    `has_tried` is whether it has, which leaves a record of its own.
    """

    peer: Peer
    reason: str
    has_tried: bool = False


@dataclass(frozen=True, slots=True)
class RegisteredUser:
    """An agent authenticated by one of its keys."""

    agent_id: str


class WorldAuthenticator(Authenticator):
    """Admits the keys of a world's agents, and new keys by the registration mode."""

    def __init__(self, world: World, settings: ReloadableSettings) -> None:
        self._world = world
        self._settings = settings
        self.audit = LoginAudit(world)
        self._registrations = SlidingWindow(
            lambda: settings.registration.per_hour_per_address,
            REGISTRATION_WINDOW_SECONDS,
            max_keys=MAX_COUNTED_ADDRESSES,
        )

    @override
    def is_acceptable(self, username: str, fingerprint: str) -> bool:
        directory = self._world.agents
        if directory.find_key(fingerprint) is not None:
            agent = directory.find_by_key(fingerprint)
            return agent is not None and not agent.disabled
        if self._settings.registration.mode == "closed":
            return False
        # A client tries its keys one after another, and the first that is accepted decides. One
        # with a known name has a key that may come later; nobody else can register the name.
        named = directory.find_by_name(username)
        return named is None or all(key.expired for key in directory.keys_of(named.id))

    @override
    async def enter(self, peer: Peer) -> RegisteredUser | UnregisteredUser:
        key = self._world.agents.find_key(peer.fingerprint)
        if key is not None:
            agent = self._world.agents.get(key.agent_id)
            if agent is None or agent.disabled:
                raise Rejected(f"{ACCOUNT_DISABLED_REASON} Ask an admin.")
            if key.expired:  # since it was offered
                raise Rejected("Your key has expired. Ask an admin.")
            self.audit.record_login(peer, agent.id)
            self._world.last_use.note_key(key)
            return RegisteredUser(agent.id)
        match self._settings.registration.mode:
            case "closed":
                raise Rejected("Registration is closed. Ask the operator to add your key.")
            case "invite":
                return UnregisteredUser(peer, "Unknown key. Registration needs an invite code.")
            case "open":
                try:
                    return RegisteredUser((await self.register(peer, peer.username)).id)
                except WorldError as error:
                    return UnregisteredUser(peer, str(error), has_tried=True)

    @override
    def left(self, peer: Peer, identity: object, seconds: float) -> None:
        key = self._world.agents.find_key(peer.fingerprint)
        if key is not None:
            self._world.last_use.note_key(key)
        if isinstance(identity, RegisteredUser):
            self.audit.record_logout(peer, identity.agent_id, seconds)
        elif key is not None:  # registered on this connection
            self.audit.record_logout(peer, key.agent_id, seconds)
        elif isinstance(identity, UnregisteredUser) and not identity.has_tried:
            self.audit.record_refused_registration(peer, "the key is unknown")

    @override
    def failed(self, failure: FailedLogin) -> None:
        self.audit.record_failure(failure)

    async def register(self, peer: Peer, name: str) -> agents.Agent:
        """Create an agent for an unregistered peer in `open` mode.

        Raises:
            WorldError: if the name is invalid or taken, or the address registered too often.
        """
        if self._settings.registration.mode != "open":
            raise WorldError("Registration needs an invite code.")
        role = self._settings.registration.role

        def register(tx: Change) -> agents.Agent:
            new_agent = agents.register_agent(tx, name, role, peer.fingerprint, peer.public_key)
            record_registration(tx, new_agent, peer, "register")
            return new_agent

        agent = await self._register(peer, register)
        _log_registration(agent, peer, "open")
        return agent

    async def redeem_invite(self, peer: Peer, name: str, code: str) -> agents.Agent:
        """Create an agent for an unregistered peer with an invite code.

        Raises:
            WorldError: if the code is invalid, the name is invalid or taken, or the address
                registered too often.
        """
        if self._settings.registration.mode == "closed":
            raise WorldError("Registration is closed.")

        def redeem(tx: Change) -> agents.Agent:
            new_agent, invite_id = invites.redeem_invite(
                tx, code, name, peer.fingerprint, peer.public_key
            )
            # The code is secret; the list of invites says who made the one with this id.
            record_registration(tx, new_agent, peer, "redeem invite", f" {invite_id}")
            return new_agent

        agent = await self._register(peer, redeem)
        _log_registration(agent, peer, "invite")
        return agent

    @property
    def needs_invite(self) -> bool:
        """Whether registration needs an invite code."""
        return self._settings.registration.mode == "invite"

    async def _register(self, peer: Peer, work: Callable[[Change], agents.Agent]) -> agents.Agent:
        """Run the change that creates an agent; record one that is refused.

        Raises:
            WorldError: as the change, or if the address registered too often.
        """
        try:
            self._check_registration_rate(peer.address)
            return await self._world.change(work)
        except WorldError as error:
            self.audit.record_refused_registration(peer, error.message)
            raise

    def _check_registration_rate(self, address: str) -> None:
        """Count one attempt to register, so that invite codes cannot be guessed fast.

        Raises:
            WorldError: if the address has used up its attempts in REGISTRATION_WINDOW_SECONDS.
        """
        if self._registrations.hit(address) > 0:
            count_refusal("registrations")
            raise WorldError("Too many registrations from your address.", hint="Retry in an hour.")


def record_registration(
    tx: Change, agent: agents.Agent, peer: Peer, verb: str, by: str = ""
) -> None:
    """Append the audit row of a new agent; `by` is what follows its role."""
    request, origin = f"{agent.name} --role {agent.role}{by}", origin_of(peer)
    record_change(tx, door="ssh", verb=verb, request=request, agent_id=agent.id, origin=origin)


def _log_registration(agent: agents.Agent, peer: Peer, by: str) -> None:
    log.info(
        "registered",
        agent=agent.name,
        address=peer.address,
        fingerprint=peer.fingerprint,
        by=by,
    )
