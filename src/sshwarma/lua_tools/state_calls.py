"""`host.state` of a script: values that it keeps between its runs."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Literal, TypeAlias, get_args

from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid
from sshwarma.world.script_state import check_state_key, list_state, read_state, write_state
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

STATE_CALL: Final = "host state"
"""The name of these calls between a script and the server; no tool can have it."""

StateScope: TypeAlias = Literal["tool", "room", "agent"]
"""Whose values a script asks for: its own, those of its room, or of who calls it."""


async def answer_state_call(caller: Caller, script: Thing, arguments: dict[str, Any]) -> Any:
    """Carry out an operation on what a script keeps, and return its result.

    Changes need no right but that to call the script: they are seen by nobody else, and bounded.

    Raises:
        Invalid: if an argument is wrong, or the store is full.
    """
    owner_id = _find_owner(caller, script, arguments.get("scope"))
    match arguments.get("op"):
        case "get":
            key = check_state_key(arguments.get("key"))
            query = partial(read_state, script_id=script.id, owner_id=owner_id, key=key)
            return await caller.world.store.read(query)
        case "all":
            return await caller.world.store.read(
                partial(list_state, script_id=script.id, owner_id=owner_id)
            )
        case "set" | "add" | "swap" as operation:
            check_state_key(arguments.get("key"))
            change = partial(_CHANGES[operation], script.id, owner_id, arguments)
            return await caller.world.change(change)
        case _:
            raise Invalid("host.state: unknown operation.")


def _find_owner(caller: Caller, script: Thing, scope: object) -> str:
    match scope:
        case None | "tool":
            return script.id
        case "room":
            return caller.room_id
        case "agent":
            return caller.agent.id
        case _:
            raise Invalid(
                f"host.state: the scope must be one of {', '.join(get_args(StateScope))}."
            )


def _set(script_id: str, owner_id: str, given: dict[str, Any], tx: Change) -> bool:
    write_state(tx, script_id, owner_id, given["key"], given.get("value"))
    return True


def _add(script_id: str, owner_id: str, given: dict[str, Any], tx: Change) -> int | float:
    """Add to a number, which is 0 without a value."""
    old = read_state(tx.conn, script_id, owner_id, given["key"])
    more = given.get("value", 1)
    for number in (0 if old is None else old, more):
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise Invalid("host.state: add takes numbers alone.")
    total: int | float = (old or 0) + more
    write_state(tx, script_id, owner_id, given["key"], total)
    return total


def _swap(script_id: str, owner_id: str, given: dict[str, Any], tx: Change) -> bool:
    """Store a value if the present one is that which the script knows."""
    if read_state(tx.conn, script_id, owner_id, given["key"]) != given.get("old"):
        return False
    write_state(tx, script_id, owner_id, given["key"], given.get("value"))
    return True


_CHANGES: Final = {"set": _set, "add": _add, "swap": _swap}
