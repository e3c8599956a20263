"""Rights that a call needs besides the verb's own, by argument or by data.

They are declared with the verb. Dispatch checks those that follow from the arguments before it runs
the verb. Those that follow from what the verb finds, such as who made a thing, are checked by the
verb with `DataRight.require`. Help, the reference and the HTTP catalogue state both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sshwarma.world.access import Right, required_scope
from sshwarma.world.builtin_containers import DEFAULTS_ID
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, Invalid
from sshwarma.world.ids import HOME_ID, now_ms
from sshwarma.world.missing_rights import explain_granters
from sshwarma.world.names import split_bag_name
from sshwarma.world.rooms import Room


@dataclass(frozen=True, slots=True)
class ArgumentRight:
    """A right in the caller's room for a call that gives an argument a value.

    Attributes:
        argument: the parameter; a flag that is not set counts as not given.
        purpose: what the right is for, as help says it: "to set it".
        values: the only values that need the right; () for any value.
        is_change: whether such a call changes something.
    """

    argument: str
    right: Right
    purpose: str
    values: tuple[str, ...] = ()
    is_change: bool = True

    @property
    def text(self) -> str:
        """The right and its purpose, as help states them."""
        return f"{self.right} {self.purpose}"

    async def check(self, caller: Caller, arguments: Mapping[str, Any]) -> None:
        """Raise Forbidden if these arguments need the right and the caller lacks it."""
        value = arguments[self.argument]
        if value is None or value is False or (self.values and value not in self.values):
            return
        await caller.require(self.right)


@dataclass(frozen=True, slots=True)
class ContextRight:
    """The right to change the equipment of the context that an argument names.

    The context is `room`, `me`, `defaults` or `@agent`; without a value, it is that of
    `default_context`.
    """

    argument: str

    @property
    def text(self) -> str:
        """The rights for each context, as help states them."""
        return f"{Right.BUILD} for room, {Right.ADMIN} for defaults and another agent"

    async def check(self, caller: Caller, arguments: Mapping[str, Any]) -> None:
        """Raise Forbidden unless the caller may change the equipment of the context.

        Raises:
            NotFound: if no agent has that name.
        """
        context = arguments[self.argument] or default_context(caller)
        if context == "room":
            try:
                await caller.require(Right.BUILD)
            except Forbidden as error:
                error.hints += ("Use the context me for yourself alone.",)
                raise
        elif context == DEFAULTS_ID or (
            context.startswith("@") and caller.world.agents.find(context).id != caller.agent.id
        ):
            await caller.require(Right.ADMIN)


@dataclass(frozen=True, slots=True)
class RoomRight:
    """A right in the room that an argument names.

    Attributes:
        purpose: the place and use of the right, as help says it: "in the room it leads to".
        flag: the flag that needs the right; "" if every call does.
    """

    argument: str
    right: Right
    purpose: str
    flag: str = ""

    @property
    def text(self) -> str:
        """The right and its purpose, as help states them."""
        return f"{self.right} {self.purpose}"

    async def check(self, caller: Caller, arguments: Mapping[str, Any]) -> None:
        """Raise Forbidden if the caller lacks the right in that room.

        Raises:
            NotFound: if the room does not exist, or the caller may not know of it.
        """
        name = arguments[self.argument]
        if name is not None and (not self.flag or arguments[self.flag]):
            await caller.require(self.right, await caller.find_room(name))


@dataclass(frozen=True, slots=True)
class BagRight:
    """The build right for the bag that an argument names; none for the caller's own.

    Attributes:
        is_name: whether the argument names a thing, as in `me:todo`; else `room`, `me` or `home`.
    """

    argument: str
    is_name: bool = False

    @property
    def text(self) -> str:
        """The right and its purpose, as help states them."""
        return BAG_RIGHT.text

    async def check(self, caller: Caller, arguments: Mapping[str, Any]) -> None:
        """Raise Forbidden unless the caller may change the things in that bag."""
        value = arguments[self.argument]
        bag = split_bag_name(value)[0] if self.is_name else value
        if bag != "me":
            room = await (caller.world.room(HOME_ID) if bag == "home" else caller.room())
            await caller.require(Right.BUILD, room)


@dataclass(frozen=True, slots=True)
class RankRight:
    """The right to act on the agent that an argument names.

    It depends on that agent's roles in the caller's room and on the server, also of one who is
    banned.

    Attributes:
        action: what is done to it, as a refusal says it: "kick".
    """

    argument: str
    action: str

    @property
    def text(self) -> str:
        """The rights and whom they are for, as help states them."""
        of_server = f"{Right.OWN} for an admin or owner of the server"
        return f"{Right.ADMIN} for an owner of the room, {of_server}"

    async def check(self, caller: Caller, arguments: Mapping[str, Any]) -> None:
        """Raise Forbidden unless the caller may act on an agent with such rights.

        Raises:
            NotFound: if no agent has that name.
            Invalid: if it is the caller.
        """
        target = caller.world.agents.find(arguments[self.argument])
        if target.id == caller.agent.id:
            raise Invalid(f"You cannot {self.action} yourself.")
        here, now = await caller.room(), now_ms()
        target_rights = here.rights_of(target, now=now)
        member = here.members.get(target.id)
        is_room_owner = member is not None and member.role == "owner"
        own_rights = here.rights_of(caller.agent, now=now)
        if Right.ADMIN in target_rights and Right.OWN not in own_rights:
            raise explain_granters(
                caller.world.agents,
                Right.OWN,
                here,
                f"to {self.action} {target.name}, an {target.role} of this server",
            )
        if is_room_owner and Right.ADMIN not in own_rights:
            raise explain_granters(
                caller.world.agents,
                Right.ADMIN,
                here,
                f"to {self.action} {target.name}, an owner of {here.name} too",
            )


@dataclass(frozen=True, slots=True)
class DataRight:
    """A right to act on the data of another agent.

    The verb checks it when it knows the owner.
    """

    right: Right
    purpose: str

    @property
    def text(self) -> str:
        """The right and its purpose, as help states them."""
        return f"{self.right} {self.purpose}"

    async def is_held(self, caller: Caller, room: Room | None = None) -> bool:
        """Return whether the agent has the right, whatever the scope of its token.

        Args:
            caller: who makes the call.
            room: where the right is needed (default: the caller's room).
        """
        room = room or await caller.room()
        return self.right in caller.rights_in(room, now_ms())

    async def is_met(self, caller: Caller, room: Room | None = None) -> bool:
        """Return whether the agent has the right, and its token the scope for it.

        Args:
            caller: who makes the call.
            room: where the right is needed (default: the caller's room).
        """
        allowed = caller.scope.allows(required_scope(self.right))
        return allowed and await self.is_held(caller, room)

    async def require(
        self,
        caller: Caller,
        owner_id: str | None = None,
        room: Room | None = None,
        refusal: Forbidden | None = None,
    ) -> None:
        """Raise unless the data are the caller's own, or the caller has the right.

        Args:
            caller: who makes the call.
            owner_id: id of the owner, or None.
            room: where the right is needed (default: the caller's room).
            refusal: the error for a missing right (default: one that names the right); a scope
                that is too narrow has its own error.

        Raises:
            Forbidden: if the caller may not.
        """
        is_for_people = caller.is_of_script and self.right is Right.ADMIN
        if owner_id == caller.agent.id and not is_for_people:
            return  # else a script of another would change what its caller has made for all
        if owner_id == caller.agent.id and not await self.is_held(caller, room):
            raise Forbidden(
                "Permission denied: no script or custom command of yours changes it.",
                hint="Call it yourself, without a script.",
            )
        # A script lacks it for a reason of its own, which `Caller.require` knows.
        if refusal is not None and not caller.is_of_script and not await self.is_held(caller, room):
            raise refusal
        await caller.require(self.right, room)


@dataclass(frozen=True, slots=True)
class MemberRight:
    """Membership of the server, or a role in the room: guests have neither.

    A tool that a model or a program calls needs neither: the room, or its owner, equipped it.

    Attributes:
        purpose: what it is for, as a refusal says it: "for the files of a room".
        of_callers: whether who calls a tool needs it too; of a model, the person whom it answers.
    """

    purpose: str
    of_callers: bool = False

    @property
    def text(self) -> str:
        """The right, as help states it."""
        return f"{Right.CREATE}, or a role in the room"

    async def check(self, caller: Caller, arguments: Mapping[str, Any]) -> None:
        """Raise Forbidden if the caller is a guest without a role in the room."""
        if caller.call_stack is not None and not self.of_callers:
            return
        room = await caller.room()
        agent = caller.agent
        if agent.kind == "model":  # its own role says nothing of who wants it
            agent = caller.asking_agent or agent
        member = room.members.get(agent.id)
        has_role = member is not None and member.role is not None
        if not has_role and Right.CREATE not in room.rights_of(agent, now=now_ms()):
            raise explain_granters(caller.world.agents, Right.CREATE, room, self.purpose)


RightRule: TypeAlias = (
    ArgumentRight | ContextRight | RoomRight | BagRight | RankRight | DataRight | MemberRight
)

BAG_RIGHT: Final = DataRight(Right.BUILD, "for a bag that is not yours")
MAKER_RIGHT: Final = DataRight(Right.ADMIN, "for what is built in or somebody else made")
TRIGGER_RIGHT: Final = DataRight(Right.TALK, "for its script, which has a member's role")
ROOM_NAME_RIGHT: Final = DataRight(Right.MODERATE, "for the name of a room")
ASKER_RIGHT: Final = DataRight(Right.MODERATE, "for what somebody else asked")
TOOL_RIGHT: Final = DataRight(Right.BUILD, "for a tool of a room")
FILES_RIGHT: Final = MemberRight("for the files of a room")
MEMORY_RIGHT: Final = MemberRight("for the memory of a room or project", of_callers=True)
NEW_PROJECT_RIGHT: Final = DataRight(Right.CREATE, "for a new project")
NEW_NAMESPACE_RIGHT: Final = DataRight(Right.CREATE, "for a new namespace")


def default_context(caller: Caller) -> str:
    """Return the context of a call that names none: the room, or a model itself."""
    return "me" if caller.agent.kind == "model" else "room"
