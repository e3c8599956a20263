"""The verbs of `/trigger`: scripts of a room that its events start."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, TypeAlias

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_KEPT_TRIGGER_RUNS
from sshwarma.common.validation_text import describe_json_error
from sshwarma.lua_tools.trigger_declaration import TriggerDeclaration, parse_trigger
from sshwarma.lua_tools.turn_on import turn_on_now
from sshwarma.services import services_of
from sshwarma.verbs.arguments import Arg, CompletionRequest, LuaAfterEquals, Option, Text
from sshwarma.verbs.edit_draft import EditDraft, make_edit_draft
from sshwarma.verbs.registry import group
from sshwarma.verbs.rights import TRIGGER_RIGHT
from sshwarma.verbs.tool_views import ToolTestResult
from sshwarma.verbs.trigger_views import TriggerItem, TriggerList, TriggerLog, TriggerOn
from sshwarma.verbs.views import Confirmation
from sshwarma.world import bag_reads, text_history, things, triggers
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, NotFound, empty_error
from sshwarma.world.ids import now_ms
from sshwarma.world.names import TRIGGER_PREFIX, check_name
from sshwarma.world.reader import TextByReader, next_call
from sshwarma.world.rooms import Room
from sshwarma.world.store import Change
from sshwarma.world.thing_size import check_thing_size
from sshwarma.world.triggers import Trigger


async def complete_triggers(request: CompletionRequest) -> list[Option]:
    """List the triggers of the caller's room."""
    query = partial(triggers.list_triggers, room_id=request.caller.room_id)
    return [(one.name, "") for one in await request.caller.world.store.read(query)]


TriggerName: TypeAlias = Annotated[str, Arg(complete=complete_triggers)]

trigger = group(
    "trigger",
    section="Building",
    default="list",
    doc="""Run Lua scripts when something happens in this room, or at set times.

    A trigger is the text trigger:NAME of the room. It has the rights of who turned it on, and
    says what its script returns. Details: /help triggers.
    """,
)


@trigger.verb("list", needs=Right.ENTER, tool=False, examples=("/trigger", "/trigger list"))
async def list_triggers(caller: Caller) -> TriggerList:
    """List the triggers of the room."""
    room = await caller.room()

    def read(conn: Connection) -> list[TriggerItem]:
        return [
            _make_item(caller, room, one, conn)
            for one in triggers.list_triggers(conn, caller.room_id)
        ]

    return TriggerList(room.name, tuple(await caller.world.store.read(read)))


def _make_item(caller: Caller, room: Room, one: Trigger, conn: Connection) -> TriggerItem:
    why_off = one.why_off
    try:
        declaration = parse_trigger(one.script or "")
    except Invalid as error:
        declaration = TriggerDeclaration("")
        why_off = why_off or error.message
    return TriggerItem(
        one.name,
        declaration.conditions,
        caller.world.agents.name_of(one.agent_id) if one.agent_id else "",
        declaration.summary,
        not why_off,
        why_off,
        one.agent_id and room.explain_absence(caller.world.agents.get(one.agent_id), now_ms()),
        next(iter(triggers.read_runs(conn, one.id, 1)), None),
    )


@trigger.verb(
    "new",
    needs=Right.BUILD,
    also_needs=(TRIGGER_RIGHT,),
    tool=False,
    examples=(
        "/trigger new alarm = -- @on call:error",
        "/trigger new morning = -- @at 0 9 * * mon-fri Europe/Berlin",
    ),
)
async def write_trigger(caller: Caller, name: TriggerName, text: LuaAfterEquals) -> TriggerOn:
    """Make a trigger, or replace the script of one, and turn it on.

    For people:
        From a shell: ssh HOST trigger new NAME < script.lua

    Args:
        name: the trigger.
        text: the script, in Lua. Comments at its head say what starts it: @on EVENTS, @at TIME.
    """
    plain = check_name(name.removeprefix(TRIGGER_PREFIX), "trigger")
    if not text.strip():
        raise empty_error(
            "text", hint=TextByReader(f"From a shell: ssh HOST trigger new {plain} < script.lua")
        )
    size = check_thing_size(caller.limits, text)
    caller.charge_text_volume(size)
    declaration = await _check_script(caller, plain, text)

    def work(tx: Change) -> bool:
        thing_name = f"{TRIGGER_PREFIX}{plain}"
        thing = things.find_child(tx.conn, caller.room_id, thing_name, "data")
        if thing is None:
            bag_reads.check_bag_capacity(tx.conn, caller.room_id, caller.limits.bag_things)
            made = things.create_thing(
                tx, caller.room_id, "data", thing_name, content=text, created_by=caller.agent.id
            )
        else:
            made = text_history.change_text(tx, thing, text, by=caller.agent.id)
        turn_on_now(tx, caller, made)
        done = "made" if thing is None else "changed"
        conditions = ", ".join(declaration.conditions)
        caller.append_notice(tx, f"{done} the trigger {plain}, which runs on {conditions}")
        return thing is None

    return await _make_result(caller, plain, declaration, made=await caller.change(work))


async def _check_script(caller: Caller, name: str, text: str) -> TriggerDeclaration:
    """Return what starts a script.

    Raises:
        Invalid: naming the line that is wrong.
        Forbidden: if the script could not talk here.
    """
    declaration = parse_trigger(text)
    await TRIGGER_RIGHT.require(replace(caller, command=f"{TRIGGER_PREFIX}{name}"))
    await services_of(caller).lua_tools.check_syntax(f"{TRIGGER_PREFIX}{name}", text)
    return declaration


async def _make_result(
    caller: Caller, name: str, declaration: TriggerDeclaration, *, made: bool
) -> TriggerOn:
    times = (one.next_after(now_ms()) for one in declaration.schedules)
    next_at = min((at for at in times if at is not None), default=None)
    return TriggerOn(name, (await caller.room()).name, declaration.conditions, made, next_at)


@trigger.verb(
    "edit",
    ssh_only=True,
    in_console=True,
    needs=Right.BUILD,
    tool=False,
    examples=("/trigger edit alarm",),
)
async def edit_trigger(caller: Caller, name: TriggerName) -> EditDraft:
    """Edit the script of a trigger in the line editor.

    Args:
        name: the trigger; a new name starts an empty script.
    """
    try:
        found = await _find(caller, name)
    except NotFound:
        plain = check_name(name.removeprefix(TRIGGER_PREFIX), "trigger")
        line = f"/trigger new {plain}"
        return make_edit_draft(caller, plain, "", line, is_new=True, language="lua")
    line = f"/trigger new {found.name}"
    return make_edit_draft(caller, found.name, found.script or "", line, language="lua")


@trigger.verb("log", needs=Right.ENTER, tool=False, examples=("/trigger log alarm",))
async def show_log(caller: Caller, name: TriggerName) -> TriggerLog:
    """Show the last runs of a trigger, and what they gave.

    Args:
        name: the trigger.
    """
    found = await _find(caller, name)
    query = partial(triggers.read_runs, trigger_id=found.id, limit=MAX_KEPT_TRIGGER_RUNS)
    return TriggerLog(found.name, tuple(await caller.world.store.read(query)))


@trigger.verb(
    "test",
    needs=Right.BUILD,
    also_needs=(TRIGGER_RIGHT,),
    tool=False,
    examples=("/trigger test alarm", '/trigger test alarm {"text": "the disk is full"}'),
)
async def try_trigger(
    caller: Caller, name: TriggerName, event: Text | None = None
) -> ToolTestResult:
    """Run the script of a trigger now, and show its result only to you.

    It has your rights. The log keeps neither the run nor the calls that it makes. What these change
    or say is real.

    Args:
        name: the trigger.
        event: values of the event, as a JSON object (default: as the first condition has them).
    """
    found = await _find(caller, name)
    declaration = await _check_script(caller, found.name, found.script or "")
    values = _make_test_event(declaration) | {"room": (await caller.room()).name}
    values |= _read_event(event)
    script_name = f"{TRIGGER_PREFIX}{found.name}"
    trial = replace(caller.inside_trial(script_name), command=script_name)
    thing = await caller.world.store.read(lambda conn: things.get_live_thing(conn, found.thing_id))
    began = time.monotonic()
    with caller.world.open_requests.begin(caller.agent.id, room_id=caller.room_id):
        result = await services_of(caller).lua_tools.run_trigger(trial, thing, values)
    return ToolTestResult(
        tool=script_name,
        ok=not result.is_error,
        text=result.text or "It says nothing.",
        structured=result.structured,
        printed=result.printed_lines,
        seconds=time.monotonic() - began,
    )


def _make_test_event(declaration: TriggerDeclaration) -> dict[str, Any]:
    """Return an event as the first condition of a trigger has it, but for its type."""
    now = now_ms()
    made = {"type": "test", "at": now, "text": "This is a test."}
    made |= {"on": list(declaration.conditions[:1])}
    for schedule in declaration.schedules[:1]:
        made["time"] = schedule.to_local(now).isoformat(timespec="seconds")
    for state in declaration.states[:1]:
        made |= {"state": state.name, "is_set": state.is_set}
    return made


def _read_event(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"event: not JSON: {describe_json_error(error)}.") from error
    if not isinstance(values, dict):
        raise Invalid("event: must be a JSON object.", hint='For example: {"text": "hello"}')
    return values


@trigger.verb(
    "on",
    needs=Right.BUILD,
    also_needs=(TRIGGER_RIGHT,),
    tool=False,
    examples=("/trigger on alarm",),
)
async def turn_on(caller: Caller, name: TriggerName) -> TriggerOn:
    """Turn a trigger on, as its script is now. It has your rights from then on.

    Args:
        name: the trigger.
    """
    found = await _find(caller, name)
    declaration = await _check_script(caller, found.name, found.script or "")

    def work(tx: Change) -> None:
        script = things.get_live_thing(tx.conn, found.thing_id)
        if script.content != found.script:
            raise Conflict(f"The script of {found.name} was changed meanwhile.")
        turn_on_now(tx, caller, script)
        caller.append_notice(tx, f"turned the trigger {found.name} on")

    await caller.change(work)
    return await _make_result(caller, found.name, declaration, made=False)


@trigger.verb("off", needs=Right.BUILD, tool=False, examples=("/trigger off alarm",))
async def turn_off(caller: Caller, name: TriggerName) -> Confirmation:
    """Turn a trigger off, until it is turned on. A run of it is cut.

    Args:
        name: the trigger.
    """
    found = await _find_known(caller, name)

    def work(tx: Change) -> None:
        triggers.turn_off(tx, found.id, f"{caller.agent.name} turned it off")
        caller.append_notice(tx, f"turned the trigger {found.name} off")

    await caller.change(work)
    return Confirmation(f"The trigger {found.name} is off.")


@trigger.verb("remove", needs=Right.BUILD, tool=False, examples=("/trigger remove alarm",))
async def remove_trigger(caller: Caller, name: TriggerName) -> Confirmation:
    """Remove a trigger with its script and its log.

    For people:
        /restore trigger:NAME brings the script back.

    Args:
        name: the trigger.
    """
    found = await _find(caller, name)

    def work(tx: Change) -> None:
        if found.id:
            triggers.remove_trigger(tx, found.id)
        things.delete_thing(tx, things.get_live_thing(tx.conn, found.thing_id))
        caller.append_notice(tx, f"removed the trigger {found.name}")

    await caller.change(work)
    return Confirmation(f"Removed the trigger {found.name}.")


async def _find(caller: Caller, name: str) -> Trigger:
    query = partial(triggers.find_trigger, room_id=caller.room_id, name=name)
    return await caller.world.store.read(query)


async def _find_known(caller: Caller, name: str) -> Trigger:
    """Return a trigger that was turned on.

    Raises:
        Invalid: if it never was.
    """
    found = await _find(caller, name)
    if not found.id:
        raise Invalid(
            f"{found.name} was never on.",
            hint=next_call("{} turns it on.", "trigger on", name=found.name),
        )
    return found
