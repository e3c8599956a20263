"""Agents (people, models, external agents, bots), and their roles.

`AgentDirectory` also keeps all live agents and keys in memory, because every login, every name in a
view and every rights check reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

import structlog
from sqlalchemy import Connection, select

from sshwarma.world import names, things
from sshwarma.world.authors import SPEAKER_KEY
from sshwarma.world.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    unknown_name_error,
)
from sshwarma.world.events import AgentsChanged
from sshwarma.world.ids import LOBBY_ID
from sshwarma.world.login_keys import AgentKey, add_key, read_keys
from sshwarma.world.reader import Hint, next_call
from sshwarma.world.row import Row
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change
from sshwarma.world.stored_json import UnreadableError, take_field, take_word, take_words
from sshwarma.world.things import Thing

log = structlog.get_logger(__name__)

AgentKind = Literal["person", "model"]
ServerRole = Literal["owner", "admin", "member", "guest"]
SERVER_ROLES: Final[tuple[ServerRole, ...]] = get_args(ServerRole)


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent, as rights and views need it.

    `prefs` and `aliases` are its own settings.
    """

    id: str
    name: str
    kind: AgentKind = "person"
    role: ServerRole = "member"
    disabled: bool = False
    description: str = ""
    prefs: dict[str, Any] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    room_id: str = LOBBY_ID  # the room of its latest connection
    prompt: str = ""  # models only: the agent's own prompt
    model: dict[str, Any] = field(default_factory=dict)  # models added by verb only
    rooms: frozenset[str] = frozenset()  # names of the rooms where a model may be called; all
    retired: bool = False  # the model was removed; its agent gives its messages a name

    @classmethod
    def from_thing(cls, thing: Thing) -> Agent:
        """Return the agent that a thing stores; a disabled one if that cannot be read."""
        try:
            return cls.parse_thing(thing)
        except UnreadableError as error:
            reason = str(error)
            log.error("an agent cannot be read, and is disabled", agent=thing.name, reason=reason)
            return cls(thing.id, thing.name, role="guest", disabled=True)

    @classmethod
    def parse_thing(cls, thing: Thing) -> Agent:
        """Return the agent that a thing stores.

        Raises:
            UnreadableError: if it has a field that no version writes.
        """
        if not thing.is_readable:
            raise UnreadableError("its metadata cannot be read")
        meta = thing.metadata
        return cls(
            id=thing.id,
            name=thing.name,
            kind=take_word(meta, "agent_kind", get_args(AgentKind), "person"),
            role=take_word(meta, "role", SERVER_ROLES, "member"),
            disabled=bool(meta.get("disabled")),
            description=thing.description,
            prefs=take_field(meta, "prefs", dict, {}),
            aliases=take_field(meta, "aliases", dict, {}),
            room_id=take_field(meta, "room_id", str, LOBBY_ID),
            prompt=take_field(meta, "prompt", str, ""),
            model=take_field(meta, "model", dict, {}),
            rooms=take_words(meta, "rooms") or frozenset(),
            retired=bool(meta.get("retired")),
        )


ACCOUNT_DISABLED_REASON: Final = "Your account is disabled."


class AgentDirectory:
    """All live agents and keys, in memory. `refresh` follows AgentsChanged.

    `version` changes with names: what was made with names of another version is made again.
    """

    def __init__(self) -> None:
        self.version = 0
        self._agents: dict[str, Agent] = {}
        self._by_name: dict[str, str] = {}
        self._keys: dict[str, AgentKey] = {}
        self._fingerprints: dict[str, list[str]] = {}  # by agent
        self._removed_names: dict[str, str] = {}

    def load(
        self,
        agents: Iterable[Agent],
        keys: Iterable[AgentKey],
        removed_names: Mapping[str, str] | None = None,
    ) -> None:
        """Replace all cached agents, keys and names of removed agents."""
        self.version += 1
        self._removed_names = dict(removed_names or {})
        self._agents = {agent.id: agent for agent in agents}
        self._by_name = {agent.name: agent.id for agent in self._agents.values()}
        self._keys, self._fingerprints = {}, {}
        self._add_keys(keys)

    def refresh(self, agent_id: str, agent: Agent | None, keys: Iterable[AgentKey]) -> None:
        """Replace the cached data of one agent."""
        old_agent = self._agents.pop(agent_id, None)
        if agent is None or old_agent is None or agent.name != old_agent.name:
            self.version += 1
        if old_agent is not None and self._by_name.get(old_agent.name) == agent_id:
            del self._by_name[old_agent.name]
        if old_agent is not None and agent is None:
            self._removed_names[agent_id] = old_agent.name
        if agent is not None:
            self._agents[agent_id] = agent
            self._by_name[agent.name] = agent_id
        for old_key in self.keys_of(agent_id):
            del self._keys[old_key.fingerprint]
        self._fingerprints.pop(agent_id, None)
        if agent is not None:
            self._add_keys(keys)

    def set_key_used(self, fingerprint: str, at: int) -> None:
        """Set when a key was last used, if there is such a key."""
        key = self._keys.get(fingerprint)
        if key is not None:
            self._keys[fingerprint] = replace(key, last_used_at=at)

    def _add_keys(self, keys: Iterable[AgentKey]) -> None:
        for key in keys:
            self._keys[key.fingerprint] = key
            self._fingerprints.setdefault(key.agent_id, []).append(key.fingerprint)

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._agents.values())

    def get(self, agent_id: str | None) -> Agent | None:
        """Return the agent with that id, or None."""
        return self._agents.get(agent_id) if agent_id else None

    def get_enabled(self, agent_id: str) -> Agent:
        """Return the agent with that id.

        Raises:
            Forbidden: if the account is deleted or disabled.
        """
        agent = self._agents.get(agent_id)
        if agent is None or agent.disabled:
            raise Forbidden(ACCOUNT_DISABLED_REASON)
        return agent

    def find_by_name(self, name: str) -> Agent | None:
        """Return the agent with exactly that name, or None; case does not matter."""
        return self._agents.get(self._by_name.get(name.lower(), ""))

    def name_author(self, row: Row) -> str:
        """Return who has written a row: NAME@AGENT if the agent speaks for somebody else."""
        name, speaker = self.name_of(row.author_id), row.meta.get(SPEAKER_KEY)
        return f"{speaker}@{name}" if speaker else name

    def name_of(self, agent_id: str | None) -> str:
        """Return the agent's name; `sshwarma` for messages of the world itself.

        A removed agent keeps its name, marked if somebody else has it now.
        """
        if agent_id is None:
            return "sshwarma"
        agent = self._agents.get(agent_id)
        if agent is not None:
            return agent.name
        name = self._removed_names.get(agent_id)
        if name is None:
            return "(gone)"
        return f"{name} (removed)" if name in self._by_name else name

    def find_with_removed(self, name: str) -> tuple[str, ...]:
        """Return the ids of the agent with a name and of removed ones that had it."""
        agent = self.find_by_name(name)
        return (
            *(one_id for one_id, known in self._removed_names.items() if known == name.lower()),
            *((agent.id,) if agent is not None else ()),
        )

    def find_key(self, fingerprint: str) -> AgentKey | None:
        """Return the key with that fingerprint, also if it has expired, or None."""
        return self._keys.get(fingerprint)

    def find_by_key(self, fingerprint: str) -> Agent | None:
        """Return the agent with that key, or None; an expired key is nobody's."""
        key = self._keys.get(fingerprint)
        return self._agents.get(key.agent_id) if key and not key.expired else None

    def keys_of(self, agent_id: str) -> list[AgentKey]:
        """Return the keys of an agent, also those that have expired."""
        found = map(self._keys.get, self._fingerprints.get(agent_id, ()))
        # A key that has changed hands is read again with its old agent, then with the new one.
        return [key for key in found if key is not None and key.agent_id == agent_id]

    def find(self, prefix: str) -> Agent:
        """Return the agent with that name, or the only one whose name starts with it.

        A leading @ is ignored.

        Raises:
            NotFound: if no agent matches, or several do.
        """
        return self._find("agent", prefix, self, hint=next_call("{} shows who is here.", "who"))

    def find_model(self, prefix: str) -> Agent:
        """Return the model with that name, or the only one whose name starts with it.

        A leading @ is ignored.

        Raises:
            NotFound: if no model matches, or several do.
            Invalid: if another kind of agent has that name.
        """
        match = self.find_by_name(prefix.removeprefix("@"))
        if match is not None and match.kind != "model":
            raise Invalid(
                f"{match.name} is not a model.", hint=next_call("{} lists them.", "models")
            )
        models = [agent for agent in self if agent.kind == "model"]
        return self._find("model", prefix, models, hint=next_call("{} lists them.", "models"))

    def _find(self, kind: str, prefix: str, among: Iterable[Agent], hint: Hint) -> Agent:
        word = prefix.removeprefix("@").lower()
        by_name = {agent.name: agent for agent in among}
        if word in by_name:
            return by_name[word]
        matches = sorted(name for name in by_name if word and name.startswith(word))
        if len(matches) == 1:
            return by_name[matches[0]]
        if matches:
            raise NotFound(f"{word} is ambiguous: {', '.join(matches[:6])}.")
        raise unknown_name_error(kind, word, known=by_name, hint=hint)


def read_agent_named(conn: Connection, name: str) -> Agent | None:
    """Return the live agent with a name, or None; case does not matter."""
    found = (agent for agent in read_agents(conn)[0] if agent.name.lower() == name.lower())
    return next(found, None)


def read_agents(conn: Connection) -> tuple[list[Agent], list[AgentKey]]:
    """Every live agent and key."""
    agents = [Agent.from_thing(thing) for thing in things.read_children(conn, "agents", "agent")]
    return agents, read_keys(conn)


def read_removed_names(conn: Connection) -> dict[str, str]:
    """Return the names of removed agents, by id: what they said stays."""
    query = select(things_table.c.id, things_table.c.name).where(
        things_table.c.parent_id == "agents",
        things_table.c.kind == "agent",
        things_table.c.deleted_at.is_not(None),
    )
    return {row.id: row.name for row in conn.execute(query)}


def read_agent(conn: Connection, agent_id: str) -> tuple[Agent | None, list[AgentKey]]:
    """Return one live agent and its keys."""
    thing = things.get_thing(conn, agent_id)
    if thing is None or thing.deleted_at is not None or thing.kind != "agent":
        return None, []
    return Agent.from_thing(thing), read_keys(conn, agent_id)


def create_agent(
    tx: Change,
    name: str,
    *,
    role: str = "member",
    kind: AgentKind = "person",
    created_by: str | None = None,
) -> Agent:
    """Create an agent.

    Raises:
        Invalid: if the name or the role is not allowed.
        Conflict: if the name is taken, or looks like one that is.
    """
    check_server_role(role)
    _check_free_name(tx.conn, name, kind)
    thing = things.create_thing(
        tx,
        "agents",
        "agent",
        name,
        metadata={"agent_kind": kind, "role": role},
        created_by=created_by,
    )
    tx.publish_on_commit(AgentsChanged(thing.id))
    return Agent.from_thing(thing)


def rename_agent(tx: Change, agent_id: str, name: str) -> str:
    """Give a person another name; return the old one.

    Everything refers to agents by id, so that what they said, own and may do has the new name. Text
    that names them stays as it was written.

    Raises:
        Invalid: if the name is not allowed, or the agent is a model.
        Conflict: if the name is taken, looks like one that is, or is the agent's own.
    """
    thing = things.get_live_thing(tx.conn, agent_id)
    if Agent.from_thing(thing).kind != "person":
        raise Invalid(
            f"{thing.name} is a model, and cannot be renamed.",
            hint="Add it under the other name, and remove this one.",
        )
    if thing.name == name:
        raise Conflict(f"{name} has that name already.")
    _check_free_name(tx.conn, name, "person", own_id=agent_id)
    things.update_thing(tx, agent_id, name=name)
    tx.publish_on_commit(AgentsChanged(agent_id))
    return thing.name


def _check_free_name(conn: Connection, name: str, kind: AgentKind, own_id: str = "") -> None:
    """Raise unless an agent may get a name.

    Names that look like it are no obstacle if they are those of `own_id`.

    Raises:
        Invalid: if the name is not allowed.
        Conflict: if the name is taken, or looks like one that is.
    """
    if kind == "person":
        names.check_person_name(name)
    else:
        names.check_name(name, "agent")
    skeleton = names.confusable_skeleton(name)
    for agent in things.read_children(conn, "agents", "agent"):
        if agent.id == own_id:
            continue
        if agent.name == name:
            raise Conflict(f"The name {name} is taken.", hint="Choose another name.")
        if names.confusable_skeleton(agent.name) == skeleton:
            raise Conflict(f"{name} looks too much like {agent.name}.", hint="Choose another name.")
    if things.find_child(conn, "rooms", name, "room") is not None:
        # The same as for an agent's name: a private room is not named as one.
        raise Conflict(f"The name {name} is taken.", hint="Choose another name.")
    if (namesake := things.find_by_qualified_name(conn, name)) is not None:
        raise Conflict(
            f"{name} is the name of {things.describe_kind(namesake.kind)}.",
            hint="Choose another name.",
        )


def update_agent(tx: Change, agent_id: str, **values: Any) -> None:
    """Set an agent's `prefs`, `aliases` or `room_id`; of a model also its own fields."""
    things.set_metadata(tx, agent_id, structural=False, **values)
    tx.publish_on_commit(AgentsChanged(agent_id))


def register_agent(tx: Change, name: str, role: str, fingerprint: str, public_key: str) -> Agent:
    """Create an agent and its first key in one transaction."""
    agent = create_agent(tx, name, role=role)
    add_key(tx, agent.id, fingerprint, public_key, created_by=agent.id)
    return agent


def check_server_role(role: str) -> ServerRole:
    """Return a role that was typed.

    Raises:
        Invalid: if there is no such role; with those there are.
    """
    for known in SERVER_ROLES:
        if role == known:
            return known
    raise Invalid(f"Unknown role {role}.", hint=f"Choose one of: {', '.join(SERVER_ROLES)}.")
