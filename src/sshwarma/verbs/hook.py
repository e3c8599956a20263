"""The verbs of `/hook`: events are posted elsewhere, and others post to rooms."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_KEPT_DELIVERIES
from sshwarma.events.patterns import parse_patterns
from sshwarma.hooks import records
from sshwarma.hooks.records import Delivery, Hook, IncomingSource, OutgoingTarget
from sshwarma.hooks.templates import check_body, check_template
from sshwarma.mcp.client.address import check_address
from sshwarma.services import services_of
from sshwarma.verbs.arguments import Arg, CompletionRequest, Flag, Option, Word
from sshwarma.verbs.hook_views import HookItem, HookList, HookLog, HookTest, NewHook
from sshwarma.verbs.registry import group
from sshwarma.verbs.rights import ArgumentRight
from sshwarma.verbs.views import Confirmation
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, Unavailable
from sshwarma.world.ids import now_ms
from sshwarma.world.request_keys import keep_answer_secret
from sshwarma.world.rooms import Room
from sshwarma.world.store import Change


async def complete_hooks(request: CompletionRequest) -> list[Option]:
    """List the hooks of the caller's room."""
    query = partial(records.list_hooks, room_id=request.caller.room_id)
    return [(hook.name, "") for hook in await request.caller.world.store.read(query)]


HookName: TypeAlias = Annotated[str, Arg(complete=complete_hooks)]

hook = group(
    "hook",
    section="Tools",
    default="list",
    doc="""Post events of this room to other servers, and take posts of theirs.

    A hook has the rights of who made it: it hears and says what its maker may. Details: /help
    hooks.
    """,
)


@hook.verb("list", needs=Right.ENTER, tool=False, examples=("/hook", "/hook list"))
async def list_hooks(caller: Caller) -> HookList:
    """List the hooks of the room."""
    room = await caller.room()

    def read(conn: Connection) -> list[HookItem]:
        return [
            _make_item(
                caller, room, one, next(iter(records.read_deliveries(conn, one.id, 1)), None)
            )
            for one in records.list_hooks(conn, room.id)
        ]

    return HookList(room.name, tuple(await caller.world.store.read(read)))


def _make_item(caller: Caller, room: Room, one: Hook, last: Delivery | None) -> HookItem:
    target, source = one.target, one.source
    address = ""
    if target is not None:
        is_own = one.agent_id == caller.agent.id
        address = target.url if is_own else _hide_path(target.url)
    on = target.on.split(",") if target is not None else [(source and source.kind) or "say"]
    return HookItem(
        one.name,
        "in" if target is None else "out",
        caller.world.agents.name_of(one.agent_id),
        tuple(on),
        address,
        one.off_reason is None,
        one.failing_since,
        one.off_reason or "",
        room.explain_absence(caller.world.agents.get(one.agent_id), now_ms()),
        last,
    )


def _hide_path(url: str) -> str:
    """Return the beginning of an address: services put secrets into the path."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/…"


@hook.verb(
    "add",
    needs=Right.BUILD,
    also_needs=(ArgumentRight("allow_private", Right.OWN, "to reach private addresses"),),
    tool=False,
    examples=(
        "/hook add pager https://example.org/events --on mention,call:error",
        '/hook add chat https://hooks.example.org/T0 --on row --body \'{"text": "{text}"}\'',
    ),
)
async def add_hook(
    caller: Caller,
    name: Word,
    url: Word,
    *,
    on: Word,
    body: Word | None = None,
    own: Flag = False,
    allow_private: Flag = False,
) -> NewHook:
    """Post events of this room to another server, from now on.

    Each event is a signed POST of JSON. It is tried again until it arrives, for a day.

    Args:
        name: a name to know it by.
        url: where to post, http or https.
        on: the events, with commas: mention, tell, row, row:KIND (chat, emote, notice, journal,
            note, decision, idea, milestone), call, call:begin, call:result, call:error, approval,
            enter, leave, turns.
        body: JSON to post instead of the usual; {text} and other {names} are values of the event.
        own: whether what you say yourself is posted, too.
        allow_private: whether the address may be on this machine or in a private network.
    """
    patterns = parse_patterns(on)
    await check_address(url, allow_private=allow_private)
    target = OutgoingTarget(
        url, ",".join(one.text for one in patterns), check_body(body) if body else "", own,
        allow_private,
    )  # fmt: skip
    # The audit gets neither the path nor the body, which may have a key.
    line = f"/hook add {name} {_hide_path(url)} --on {target.on}"
    hidden = {**caller.arguments, "url": _hide_path(url)} if caller.arguments else None
    if hidden and body:
        hidden["body"] = "…"
    caller = replace(caller, line=line if caller.line else "", arguments=hidden)
    does = f"posts {target.on} to {urlsplit(url).hostname}"
    new, secret = await _store(caller, name, target, does)
    services_of(caller).hooks.refresh(new.id)
    return NewHook(new.name, (await caller.room()).name, secret)


@hook.verb(
    "in",
    needs=Right.BUILD,
    tool=False,
    examples=("/hook in ci", "/hook in ci --template '{workflow.name}: {workflow.conclusion}'"),
)
async def add_incoming(
    caller: Caller,
    name: Word,
    *,
    template: Word | None = None,
    note: Literal["note", "decision", "idea", "milestone"] | None = None,
) -> NewHook:
    """Make an address where other servers post what is said in this room.

    The room sees it as NAME@YOU. A post is JSON, a form, or text; without a template its `text`
    is said.

    Args:
        name: a name to know it by.
        template: the text to say; {names.of.values} are values of what is posted.
        note: the kind of the journal entry that a post becomes, instead of being said.
    """
    url = services_of(caller).http.url
    if not url:
        raise Unavailable("The HTTP server is off, so nothing can be posted to a hook.")
    source = IncomingSource(check_template(template or ""), note or "")
    new, secret = await _store(caller, name, source, "takes posts")
    return NewHook(new.name, (await caller.room()).name, secret, f"{url}/hooks/{secret}")


async def _store(
    caller: Caller, name: str, purpose: OutgoingTarget | IncomingSource, does: str
) -> tuple[Hook, str]:
    """Store a new hook, and say so in the room: all who are there are heard."""

    def work(tx: Change) -> tuple[Hook, str]:
        made = records.add_hook(tx, caller.room_id, caller.agent.id, name, purpose)
        caller.append_notice(tx, f"made the hook {name}, which {does}")
        return made

    keep_answer_secret()
    return await caller.change(work)


@hook.verb("log", needs=Right.ENTER, tool=False, examples=("/hook log pager",))
async def show_log(caller: Caller, name: HookName) -> HookLog:
    """Show the last deliveries of a hook.

    Args:
        name: the hook.
    """
    found = await _find(caller, name)
    query = partial(records.read_deliveries, hook_id=found.id, limit=MAX_KEPT_DELIVERIES)
    return HookLog(found.name, tuple(await caller.world.store.read(query)))


@hook.verb("test", needs=Right.BUILD, tool=False, examples=("/hook test pager",))
async def test_hook(caller: Caller, name: HookName) -> HookTest:
    """Post an event of the kind test to a hook's server.

    Args:
        name: the hook.
    """
    found = await _find(caller, name)
    if found.target is None:
        raise Invalid(f"{found.name} takes posts.", hint="Post to its address to test it.")
    outcome = await services_of(caller).hooks.post_test(found)
    return HookTest(found.name, outcome.status, outcome.error)


@hook.verb("off", needs=Right.BUILD, tool=False, examples=("/hook off pager",))
async def turn_off(caller: Caller, name: HookName) -> Confirmation:
    """Turn a hook off, until it is turned on.

    Args:
        name: the hook.
    """
    return await _turn(caller, name, f"{caller.agent.name} turned it off")


@hook.verb("on", needs=Right.BUILD, tool=False, examples=("/hook on pager",))
async def turn_on(caller: Caller, name: HookName) -> Confirmation:
    """Turn a hook on. An outgoing one first posts what happened while it was off.

    Args:
        name: the hook.
    """
    return await _turn(caller, name, None)


async def _turn(caller: Caller, name: str, off_reason: str | None) -> Confirmation:
    found = await _find(caller, name)
    state = "on" if off_reason is None else "off"

    def work(tx: Change) -> None:
        records.set_off(tx, found.id, off_reason)
        caller.append_notice(tx, f"turned the hook {found.name} {state}")

    await caller.change(work)
    hooks = services_of(caller).hooks
    if off_reason is not None:
        hooks.stop(found.id)
    elif found.target is not None:
        hooks.refresh(found.id)
    return Confirmation(f"The hook {found.name} is {state}.")


@hook.verb("remove", needs=Right.BUILD, tool=False, examples=("/hook remove pager",))
async def remove_hook(caller: Caller, name: HookName) -> Confirmation:
    """Remove a hook: its key or address is good for nothing then.

    Args:
        name: the hook.
    """
    found = await _find(caller, name)

    def work(tx: Change) -> None:
        records.remove_hook(tx, found.id)
        caller.append_notice(tx, f"removed the hook {found.name}")

    await caller.change(work)
    services_of(caller).hooks.stop(found.id)
    return Confirmation(f"Removed the hook {found.name}.")


async def _find(caller: Caller, name: str) -> Hook:
    query = partial(records.find_hook, room_id=caller.room_id, name=name)
    return await caller.world.store.read(query)
