"""The caller of one request: which agent, in which room, through which door."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sshwarma.settings import LimitSettings
from sshwarma.world import access, private_messages, rows
from sshwarma.world.access import VISITOR_RIGHTS, Right, TokenScope, required_scope
from sshwarma.world.acting_role import as_member
from sshwarma.world.agents import Agent
from sshwarma.world.audit import NO_ORIGIN, Origin, describe_request, record_change
from sshwarma.world.call_stack import CallRun, CallStack, name_scripts
from sshwarma.world.doors import Door
from sshwarma.world.errors import Forbidden, NotFound, unknown_name_error
from sshwarma.world.exits import Exit
from sshwarma.world.ids import LOBBY_ID, now_ms
from sshwarma.world.loadout import Loadout
from sshwarma.world.missing_rights import explain_missing_right
from sshwarma.world.pending_upload import PendingUpload
from sshwarma.world.presence import AgentConnection
from sshwarma.world.questions import Question
from sshwarma.world.reader import Reader, next_call, reader_at
from sshwarma.world.request_services import RequestServices
from sshwarma.world.rooms import Room
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.world import World

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caller:
    """The agent that makes a request, its room and its door.

    Attributes:
        services: the parts of the program that verbs use.
        connection: the connection that stands in the room, where the door has one.
        origin: the address, and the key or token, that the request came from.
        verb, line: the verb that runs, and the line that somebody typed for it.
        arguments: those of a call by name, which the audit records with the line.
        call_stack: the tool call that makes this request, if one does.
        question: of an answering model, the question that it answers.
        command: what wrote the line, such as the custom command `/greet`; "" for the caller.
        called_in_id: of an answering model, the id of the room in which it was called.
        scope: the scope of the token used.
        upload: the content that came with the request, for a verb that takes bytes.
        wants_json: whether a command over ssh prints all fields of its result, not its view.
        wants_bytes: whether the door sends the bytes of a file that is the result.
        on_progress: shows a few words of progress, where the door can.
        on_wait: gives the request more seconds, or takes some back, while it waits for a person.
        once: key of the message that it sends: a second one with it in 24 hours is not sent.
        check_question: of a terminal, raises unless a question is all on its screen.
        model_reader: of an answering model, what it reads as: it knows the tools it is offered.
    """

    world: World
    services: RequestServices
    limits: LimitSettings
    agent: Agent
    room_id: str
    door: Door
    connection: AgentConnection | None = None
    origin: Origin = NO_ORIGIN
    verb: str = ""
    line: str = ""
    arguments: Mapping[str, Any] | None = None
    question: Question | None = None
    called_in_id: str | None = None
    call_stack: CallStack | None = None
    command: str = ""
    scope: TokenScope = TokenScope.APPROVE
    upload: PendingUpload | None = None
    wants_json: bool = False
    wants_bytes: bool = False
    once: str = ""
    on_progress: Callable[[str], None] | None = None
    on_wait: Callable[[float], None] | None = None
    check_question: Callable[[int], None] | None = None
    model_reader: Reader | None = None

    @property
    def is_at_terminal(self) -> bool:
        """Whether somebody has typed a line, over ssh or in the terminal of a browser."""
        here = self.connection
        return self.door == "ssh" or bool(self.door == "web" and here and here.is_terminal)

    @property
    def reader(self) -> Reader:
        """Who reads the results of the request."""
        return self.model_reader or reader_at(self.door)

    @property
    def person_id(self) -> str | None:
        """Of an answering model, the id of the person who asked the question."""
        return None if self.question is None else self.question.person_id

    @property
    def is_of_script(self) -> bool:
        """Whether a script or a custom command makes the request."""
        stack = self.call_stack
        return bool(self.command) or (stack is not None and stack.is_nested)

    @property
    def acting_agent(self) -> Agent:
        """The agent, in requests of scripts with the role of a member at most."""
        return as_member(self.agent) if self.is_of_script else self.agent

    @property
    def asking_agent(self) -> Agent | None:
        """Of an answering model, who asked it; a script that did has a member's role."""
        person = self.world.agents.get(self.person_id)
        return as_member(person) if person and self.is_of_script else person

    def inside_script(self, name: str) -> Caller:
        """Return the same caller, for what the named script calls, whatever began it."""
        return self if self.command else replace(self, command=name)

    def with_verb(self, verb: str, line: str, arguments: Mapping[str, Any] | None = None) -> Caller:
        """Return the same caller, for the verb that its line runs."""
        return replace(self, verb=verb, line=line, arguments=arguments)

    def with_room(self, room_id: str) -> Caller:
        """Return the same caller in another room."""
        return replace(self, room_id=room_id)

    def inside_call(
        self, name: str, turn_id: str | None = None, row_id: str | None = None,
        run: CallRun | None = None,
    ) -> Caller:  # fmt: skip
        """Return the same caller, for requests that the named tool makes on its behalf."""
        outer, run = self.call_stack or CallStack(()), run or CallRun()
        inner = CallStack((*outer.names, name), turn_id, row_id, outer.is_trial, outer.counter, run)
        return replace(self, call_stack=inner)

    def inside_trial(self, name: str) -> Caller:
        """Return the same caller, for requests of a tool that is being tested."""
        return replace(self, call_stack=CallStack((name,), is_trial=True))

    async def loadout(self) -> Loadout:
        """Return what the caller can see and use in its room."""
        return await self.world.loadout(self.room_id, self.agent.id, self.acting_agent)

    async def room(self) -> Room:
        """Return the room the caller stands in.

        Raises:
            NotFound: if the room was deleted.
        """
        return await self.world.room(self.room_id)

    async def find_room(self, name: str) -> Room:
        """Return the live room of that name, if the caller may know of it.

        Raises:
            NotFound: with the same text for a hidden room and a missing one.
        """
        with contextlib.suppress(NotFound):
            room = await self.world.find_room(name)
            if self.may_know_of(room, now_ms()):
                return room
        names = [room.name for room in await self.known_rooms()]
        hint = next_call("{} lists them.", "rooms")
        raise unknown_name_error("room", name, known=names, hint=hint)

    @property
    def is_shown_in_room(self) -> bool:
        """Whether what the caller is given becomes a row of its room."""
        return self.question is not None or self.call_stack is not None

    @property
    def readers(self) -> tuple[Agent, ...]:
        """The agents that read what the caller is given; nobody if the asker is gone.

        The caller first: alone, or a model and the person whom it answers and may tell everything.
        """
        if self.question is None:
            return (self.agent,)
        person = self.asking_agent
        return () if person is None else (self.agent, person)

    def rights_in(self, room: Room, now: int) -> frozenset[Right]:
        """Return the caller's rights in a room at the time `now` (ms).

        While a model answers, it may look and talk in the room in which it was called, even if it
        is not a member: as a visitor, and only what the person may who asked. Bans and mutes hold.
        """
        rights = room.rights_of(self.acting_agent, now=now)
        person = self.asking_agent
        if person is None or room.id != self.called_in_id:
            return rights
        as_visitor = replace(room, mode="open").rights_of(self.acting_agent, now=now)
        return rights | (as_visitor & VISITOR_RIGHTS & room.rights_of(person, now=now))

    def _readers_have(self, right: Right, room: Room, now: int) -> bool:
        """Return whether all readers have a right in a room; no if there are no readers."""
        readers = self.readers
        of_others = (room.rights_of(reader, now=now) for reader in readers[1:])
        return bool(readers) and all(
            right in rights for rights in (self.rights_in(room, now), *of_others)
        )

    def may_know_of(self, room: Room, now: int) -> bool:
        """Return whether all readers may know that a room exists, at the time `now` (ms)."""
        if room.mode != "private":
            return bool(self.readers)
        return self._readers_have(Right.ENTER, room, now)

    async def readable_rooms(self) -> list[Room]:
        """Return the rooms that all readers may enter, by name; without bags and exits.

        Results of tools are shown in the room, so tools read only rooms that everybody in that one
        may enter.
        """
        now = now_ms()
        here = await self.room() if self.is_shown_in_room else None
        return [
            room
            for room in await self.world.rooms()
            if self._readers_have(Right.ENTER, room, now)
            and (here is None or room.is_open_to_members_of(here))
        ]

    async def readable_private_logs(self) -> list[str]:
        """Return the ids of the private conversations in which all readers take part.

        For a tool these are all members of the room, so none in a room that anyone may enter.
        """
        ids = {reader.id for reader in self.readers}
        if self.is_shown_in_room:
            here = await self.room()
            ids = ids | here.member_ids if here.mode != "open" else set()
        if not ids:
            return []
        return await self.world.store.read(
            lambda conn: private_messages.read_private_logs(conn, *sorted(ids))
        )

    async def may_administer(self) -> bool:
        """Return whether all readers have the admin right in the caller's room."""
        return self._readers_have(Right.ADMIN, await self.room(), now_ms())

    async def known_rooms(self) -> list[Room]:
        """Return the rooms that the caller may know of, by name; without bags and exits."""
        return [room for room in await self.world.rooms() if self.may_know_of(room, now_ms())]

    async def visible_exits(self, room: Room) -> tuple[Exit, ...]:
        """Return a room's exits, without those to rooms the caller may not know of."""
        now = now_ms()
        rooms = await self.world.rooms_behind(room)
        return tuple(
            way
            for way in room.exits
            if (target := rooms.get(way.to_id)) and self.may_know_of(target, now)
        )

    async def in_room(self, name: str) -> Caller:
        """Return the same caller in another room, if it may enter there.

        Raises:
            NotFound, Forbidden: if the caller may not enter, or may not know of the room.
        """
        room = await self.find_room(name)
        await self.require(Right.ENTER, room)
        return self.with_room(room.id)

    async def visibility_filter(self) -> Callable[[Thing], bool]:
        """Return a predicate: whether the caller may see what a room or bag holds now.

        It refuses rooms the caller may not enter and bags of other agents; everything else is open
        to all.
        """
        now, own_id = now_ms(), self.agent.id
        rooms = await self.world.rooms_by_id()
        admin = await self.may_administer()

        def is_open(thing: Thing) -> bool:
            if thing.kind == "agent":
                return admin or thing.id == own_id
            if thing.kind != "room":
                return True
            room = rooms.get(thing.id)
            return room is not None and Right.ENTER in self.rights_in(room, now)

        return is_open

    async def in_accessible_room(self) -> Caller:
        """Return the caller in its room; in the lobby if that is deleted or closed to it.

        For doors through which an agent acts in the room of its latest connection.
        """
        try:
            await self.require(Right.ENTER)
        except (NotFound, Forbidden):
            return self.with_room(LOBBY_ID)
        return self

    async def require(self, right: Right, room: Room | None = None) -> None:
        """Raise unless the caller has a right, in its room or another.

        Raises:
            Forbidden: naming the missing right and who can grant it; or the missing scope, if
                the agent has the right.
        """
        room = room or await self.room()
        now = now_ms()
        if right not in self.rights_in(room, now):
            raise explain_missing_right(self.agent, self.world.agents, right, room, now)
        self.require_scope(required_scope(right))

    async def refreshed(self) -> Caller:
        """Return the caller as it is now, in its room; for a door that waited for input.

        Raises:
            Forbidden: if the account is disabled, or the caller may no longer enter its room.
            NotFound: if the room was deleted.
        """
        caller = replace(self, agent=self.world.agents.get_enabled(self.agent.id))
        if self.room_id != LOBBY_ID:  # where those are who may enter no other room
            await caller.require(Right.ENTER)
        return caller

    async def as_present(self) -> Caller:
        """Return the caller with its current role, if it may be and talk in its room now.

        For work that lasts: each step of it checks again. A model that was called in a room may be
        there, unless it is banned or muted; the scope of a token is its door's to check.

        Raises:
            Forbidden: if the account is disabled, or the right to enter or to talk is missing.
            NotFound: if the room was deleted.
        """
        current, now = replace(self, agent=self.world.agents.get_enabled(self.agent.id)), now_ms()
        room = await self.room()
        as_visitor = replace(room, mode="open") if self.door == "model" else room
        rights = as_visitor.rights_of(current.agent, now=now)
        for right in (Right.ENTER, Right.TALK):
            if right not in rights:
                raise explain_missing_right(current.agent, self.world.agents, right, room, now)
        return current

    def require_scope(self, needed: TokenScope) -> None:
        """Raise unless the caller's token has the scope.

        Raises:
            Forbidden: naming the missing scope.
        """
        if not self.scope.allows(needed):
            raise access.missing_scope_error(needed, self.scope)

    def charge_text_volume(self, size: int, *, is_stored: bool = False) -> None:
        """Count bytes of text that the caller will store for good, or that are stored.

        Raises:
            RateLimited: if the agent has stored too much in the last hour; not for what is stored.
        """
        limit = self.limits.text_mib_per_hour
        self.world.text_volume.count(self.agent.id, size, limit, is_stored=is_stored)

    def charge_file_volume(self, size: int, *, is_stored: bool = False) -> None:
        """Count bytes of files that the caller will store, or that are stored.

        Raises:
            RateLimited: as `charge_text_volume`.
        """
        limit = self.limits.files_mib_per_hour
        self.world.file_volume.count(self.agent.id, size, limit, is_stored=is_stored)

    async def change(self, work: Callable[[Change], T], notice: str = "") -> T:
        """Run a change and write an audit row, in one transaction.

        `notice` is what the room sees: "opened an exit north → studio".

        Raises:
            WorldError: with the reason, if the world does not allow it.
        """
        self.require_scope(TokenScope.ACT)

        def run_with_audit(tx: Change) -> T:
            result = work(tx)
            if notice:
                self.append_notice(tx, notice)
            scripts = name_scripts(self.command, self.call_stack)
            request = describe_request(self.line, self.arguments, scripts)
            record_change(
                tx, door=self.door, verb=self.verb, request=request, agent_id=self.agent.id,
                room_id=self.room_id, origin=self.origin,
            )  # fmt: skip
            return result

        return await self.world.change(run_with_audit)

    def append_notice(self, tx: Change, text: str, meta: dict[str, Any] | None = None) -> None:
        """Announce the caller's action to all other terminals in the room, in a change."""
        me, origin = self.agent.id, self.connection
        rows.append_row(tx, self.room_id, "notice", text, author_id=me, meta=meta, origin=origin)
