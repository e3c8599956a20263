"""Namespaces: found, loaded, unloaded and described; what keeps an agent's tools few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.tools.finding import Finder
from sshwarma.tools.spaces import spaces
from sshwarma.verbs.arguments import Context, Flag, Text, Word
from sshwarma.verbs.building import Done
from sshwarma.verbs.reference import context_of
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import columns, listed, view
from sshwarma.world import equipment, loadout, namespaces, rows, things
from sshwarma.world.access import Right, Scope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, Invalid, NotFound, Unavailable
from sshwarma.world.loadout import ALWAYS, Loadout
from sshwarma.world.namespaces import Namespace
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

MOST_FOUND = 10

NAMED = 8
"""Tools that are named when a namespace is loaded; the rest are counted."""


@dataclass(frozen=True, slots=True)
class NamespaceListed:
    """A namespace as the caller has it where it stands. `tools_on` of its `tools` are on;
    `missing` are the states it requires that do not hold."""

    id: str
    name: str
    description: str
    keywords: tuple[str, ...]
    parent: str | None
    children: tuple[str, ...]
    required_states: tuple[str, ...]
    auto_load: bool
    load_with_parent: bool
    loaded: bool
    available: bool
    missing: tuple[str, ...]
    tools: int
    tools_on: int


@dataclass(frozen=True, slots=True)
class NamespaceList:
    namespaces: tuple[NamespaceListed, ...]


@view(NamespaceList)
def _(result: NamespaceList) -> Block:
    return block(
        line(("heading", "Namespaces:")),
        *columns(
            (
                ("ok", "●") if one.loaded else ("dim", "○"),
                ("thing", "  " * one.id.count(".") + one.id),
                f"{one.tools_on}/{one.tools}" if one.tools_on else f"{one.tools}",
                ("warn", "" if one.available else _why(one)),
                _about(one),
            )
            for one in result.namespaces
        ),
        line(("dim", "● loaded, ○ not. /load NAME loads one, /find WORDS finds one.")),
    )


def _why(one: NamespaceListed) -> str:
    return f"needs {', '.join(one.missing)}" if one.missing else "unavailable"


def _about(one: NamespaceListed) -> str:
    words = f" [{', '.join(one.keywords)}]" if one.keywords else ""
    return f"{one.description or one.name}{words}"


@verb(
    "namespaces",
    group="Inventory",
    needs=Right.ENTER,
    namespace="global",
    tool="list_rooms",
    aliases=("ns",),
    examples=("/namespaces",),
)
async def namespaces_(caller: Caller) -> NamespaceList:
    """List namespaces of tools: which are loaded, which could be"""
    return NamespaceList(tuple(await all_listed(caller)))


async def all_listed(caller: Caller) -> list[NamespaceListed]:
    """Every namespace as the caller has it where it stands."""
    load = await caller.world.loadout(caller.room_id, caller.agent.id)
    return await caller.world.memo(
        ("namespaces", caller.room_id, caller.agent.id), lambda conn: _listed(conn, caller, load)
    )


@dataclass(frozen=True, slots=True)
class Loaded:
    """A namespace was loaded or unloaded, with those inside it that were meant; `tools` are what
    the caller has of them now."""

    room: str
    context: str
    loaded: bool
    changed: tuple[str, ...]
    tools: tuple[str, ...]
    note: str


@view(Loaded)
def _(result: Loaded) -> Block:
    word = "Loaded" if result.loaded else "Unloaded"
    names = ", ".join(result.changed) or result.room
    lines: list[Line] = [line(f"{word} room: ", ("thing", names), f" on {result.context}.")]
    if result.tools:
        lines.append(line("Its tools: ", *listed(result.tools[:NAMED], "tool"), hang=2))
        if len(result.tools) > NAMED:
            lines.append(line(("dim", f"and {len(result.tools) - NAMED} more")))
    if result.note:
        lines.append(line(("warn", result.note)))
    return block(*lines)


@verb(
    "load",
    group="Inventory",
    needs=Right.ENTER,
    namespace="global",
    tool="load_room",
    examples=("/load git", "/load git room", "/load requirement --include-children"),
    scope=Scope.ACT,
)
async def load(
    caller: Caller,
    room: Word,
    context: Context = "me",
    *,
    include_children: Flag = False,
) -> Loaded:
    """Load a namespace, so that its tools can be used

    On yourself, wherever you go, or on the room for everybody in it. Nobody is moved. It is the
    same as equipping the namespace.

    room: the namespace, as /namespaces lists it.
    context: me, room or @agent.
    include_children: those inside it too, at every depth.
    """
    space = await caller.world.store.read(lambda conn: namespaces.find(conn, room, caller.room_id))
    known = next((one for one in await all_listed(caller) if one.id == space.id), None)
    if known is not None and not known.available:
        raise Unavailable(f"{space.id} cannot be loaded: it {_reason(known)}.")
    where = await context_of(caller, context)

    def work(tx: Change) -> list[Thing]:
        wanted = [space.thing]
        if include_children:
            wanted += namespaces.below(tx.conn, space.thing)
        changed, _ = equipment.equip(tx, where.id, wanted)
        _tell_room(tx, caller, where, "loaded", changed)
        return changed

    changed = await caller.change(work)
    return await _loaded(caller, space, context, changed, loaded=True)


def _reason(known: NamespaceListed) -> str:
    if known.missing:
        return f"needs {', '.join(known.missing)}, which does not hold here"
    return "is not available now"


@verb(
    "unload",
    group="Inventory",
    needs=Right.ENTER,
    namespace="global",
    tool="unload_room",
    examples=("/unload git", "/unload git room", "/unload requirement --include-children"),
    scope=Scope.ACT,
)
async def unload(
    caller: Caller,
    room: Word,
    context: Context = "me",
    *,
    include_children: Flag = False,
) -> Loaded:
    """Unload a namespace

    Its tools stay where they are; loading it again brings them back.

    room: the namespace, as /namespaces lists it.
    context: me, room or @agent.
    include_children: those inside it too, at every depth.
    """
    space = await caller.world.store.read(lambda conn: namespaces.find(conn, room, caller.room_id))
    if space.thing.id == ALWAYS:
        return Loaded(space.id, context, True, (), (), "global is always loaded.")
    where = await context_of(caller, context)

    def work(tx: Change) -> list[Thing]:
        meant = [space.thing]
        if include_children:
            meant += namespaces.below(tx.conn, space.thing)
        on = loadout.compute(
            tx.conn,
            where.id if where.kind == "room" else None,
            where.id if where.kind != "room" else None,
        )
        # One that is on without a row of its own gets a row that says off.
        through = {item.thing.parent_id for item in on.tools if item.thing.parent_id}
        changed, _ = equipment.unequip(tx, where.id, meant, through)
        _tell_room(tx, caller, where, "unloaded", changed)
        return changed

    changed = await caller.change(work)
    return await _loaded(caller, space, context, changed, loaded=False)


async def _loaded(
    caller: Caller, space: Namespace, context: str, changed: list[Thing], *, loaded: bool
) -> Loaded:
    have = await caller.world.loadout(caller.room_id, caller.agent.id)
    meant = {space.thing.id, *(thing.id for thing in changed)}
    tools = tuple(item.thing.label for item in have.usable if item.thing.parent_id in meant)
    note = ""
    if not changed:
        note = f"It was {'loaded' if loaded else 'not loaded'} there already."
    if not loaded and tools:
        by = {item.by for item in have.tools if item.thing.parent_id in meant}
        other = "room" if "room" in by else "agent"
        note = f"Still on through the {other}: {', '.join(tools[:NAMED])}."
    return Loaded(
        space.id,
        context,
        loaded,
        tuple(sorted(thing.label for thing in changed)),
        tools if loaded else (),
        note,
    )


@dataclass(frozen=True, slots=True)
class NamespaceShown:
    namespace: NamespaceListed
    tools: tuple[tuple[str, str], ...]  # name, description


@view(NamespaceShown)
def _(shown: NamespaceShown) -> Block:
    one = shown.namespace
    facts = (
        ("Name", one.name),
        ("Keywords", ", ".join(one.keywords)),
        ("Parent", one.parent or ""),
        ("Children", ", ".join(one.children)),
        ("Requires", ", ".join(one.required_states)),
        ("Missing", ", ".join(one.missing)),
        ("Loads by itself", "yes" if one.auto_load else ""),
        ("Loads with its parent", "yes" if one.load_with_parent else ""),
    )
    state = "loaded" if one.loaded else "not loaded"
    return block(
        line(("thing", one.id), f" - {one.description}" if one.description else ""),
        line(f"Status: {state}, {'available' if one.available else 'unavailable'}"),
        *(line(f"{name}: {value}") for name, value in facts if value),
        *([line(), line(f"Tools: {one.tools}")] if one.tools else []),
        *columns((("tool", name), about) for name, about in shown.tools),
    )


FIELDS = (
    "description", "title", "keywords", "required_states", "auto_load", "load_with_parent",
    "enabled",
)  # fmt: skip


@verb(
    "namespace",
    group="Inventory",
    needs=Right.ENTER,
    examples=(
        "/namespace show git",
        "/namespace new git.branch",
        "/namespace set git keywords git,commit,push",
        "/namespace set deploy required_states ci-configured",
        "/namespace set git.branch load_with_parent on",
        "/namespace remove git.branch",
    ),
    scope=Scope.BUILD,
)
async def namespace(
    caller: Caller,
    what: Literal["show", "new", "set", "remove"],
    name: Word,
    field: Word | None = None,
    value: Text | None = None,
) -> NamespaceShown | Done:
    """See, make and change a namespace of tools

    Who made one changes it, and administrators. A tool can be set too: keywords and
    required_states of its own. Lists are separated by commas; - empties a text or a list.

    what: show, new, set or remove.
    name: its dotted name: git, or git.branch for one inside git.
    field: for set: description, title, keywords, required_states, auto_load, load_with_parent or
        enabled; for new the description begins here.
    value: for set what it is to be.
    """
    if what == "new":
        about = " ".join(part for part in (field, value) if part)
        return await _new(caller, name, about)
    if what == "show":
        return await shown(caller, name)
    thing = await caller.world.store.read(lambda conn: _thing(conn, name, caller.room_id))
    await _own(caller, thing)
    if what == "remove":
        return await _remove(caller, thing)
    if field is None or value is None:
        raise Invalid("Say what to set.", hint=f"/namespace set {name} keywords git,commit")
    if field not in FIELDS:
        raise Invalid(f"{field[:40]} is nothing to set.", hint=f"One of {', '.join(FIELDS)}.")
    text = "" if value.strip() == "-" and field in ("description", "title") else value.strip()
    await caller.change(lambda tx: namespaces.set_field(tx, thing, field, text))
    return Done(f"{field} of {thing.label} is now: {text or 'empty'}.")


@dataclass(frozen=True, slots=True)
class FoundNamespace:
    """A namespace that fits: how well, from 0 to 1, and what it was found by."""

    id: str
    score: float
    why: str
    loaded: bool
    available: bool
    description: str


@dataclass(frozen=True, slots=True)
class FoundNamespaces:
    query: str
    found: tuple[FoundNamespace, ...]


@view(FoundNamespaces)
def _(result: FoundNamespaces) -> Block:
    if not result.found:
        return block("No namespace fits that. /namespaces lists them all.")
    return block(
        *columns(
            (
                ("ok", "●") if one.loaded else ("dim", "○"),
                ("thing", one.id),
                f"{one.score:.2f}",
                ("dim", one.why),
                one.description if one.available else f"unavailable. {one.description}",
            )
            for one in result.found
        ),
        line(("dim", f"/load {result.found[0].id} loads the first.")),
    )


@verb(
    "find",
    group="Inventory",
    needs=Right.ENTER,
    namespace="global",
    tool="find_rooms",
    examples=("/find create a requirement", "/find push my code to the server"),
)
async def find(caller: Caller, query: Text = "") -> FoundNamespaces:
    """Find the namespace of tools for what you want to do

    By keywords, names and ids first; if none of them is in what you say, by likeness.

    query: what you want to do, in your own words; all namespaces if left out.
    """
    known = {one.id: one for one in await all_listed(caller)}
    if not query.strip():
        every = (
            FoundNamespace(one.id, 0.0, "", one.loaded, one.available, one.description or one.name)
            for one in known.values()
        )
        return FoundNamespaces("", tuple(every))
    finder = caller.world.part(Finder)
    if finder is None:
        raise Unavailable("This server finds no namespaces.")
    offered = await caller.world.memo(
        ("spaces", caller.room_id), lambda conn: spaces(conn, caller.room_id)
    )
    found = await finder.find(query, offered, MOST_FOUND)
    return FoundNamespaces(
        query,
        tuple(
            FoundNamespace(
                one.id,
                round(one.score, 3),
                one.why,
                known[one.id].loaded,
                known[one.id].available,
                known[one.id].description or known[one.id].name,
            )
            for one in found
            if one.id in known
        ),
    )


async def _new(caller: Caller, name: str, about: str) -> Done:
    await caller.require(Right.CREATE)
    made = await caller.change(
        lambda tx: namespaces.create(tx, name, caller.agent.id, about.strip())
    )
    return Done(f"Made namespace {made.label}. /tool new {made.label}:NAME puts a tool into it.")


async def shown(caller: Caller, name: str) -> NamespaceShown:
    """A namespace with its tools, as the caller has it.

    Raises:
        NotFound: if there is none of that name.
    """
    space = await caller.world.store.read(lambda conn: namespaces.find(conn, name, caller.room_id))
    found = await caller.world.store.read(
        lambda conn: things.children(conn, space.thing.id, "tool")
    )
    known = next(one for one in await all_listed(caller) if one.id == space.id)
    return NamespaceShown(known, tuple((tool.label, tool.description) for tool in found))


async def _remove(caller: Caller, thing: Thing) -> Done:
    if thing.parent_id in ("world", None) or thing.kind not in ("toolset",):
        raise Invalid(f"{thing.label} is a {thing.kind} that cannot be removed like this.")
    await caller.change(lambda tx: things.delete(tx, thing))
    return Done(f"Removed {thing.label} with all that was in it.")


def _thing(conn: Connection, name: str, room_id: str) -> Thing:
    """A namespace, or a tool by its qualified name."""
    tool = things.by_qualified_name(conn, name) if ":" in name else None
    if tool is not None and tool.kind == "tool":
        return tool
    if ":" in name:
        raise NotFound(f"There is no tool {name[:60]}.", hint="/inv all lists them.")
    return namespaces.find(conn, name, room_id).thing


async def _own(caller: Caller, thing: Thing) -> None:
    if thing.created_by == caller.agent.id:
        return
    try:
        await caller.require(Right.ADMIN)
    except Forbidden as refused:
        maker = caller.world.agents.name_of(thing.created_by)
        raise Forbidden(
            f"{thing.label} was made by {maker}: they or an administrator change it."
        ) from refused


def _tell_room(tx: Change, caller: Caller, where: Thing, what: str, changed: list[Thing]) -> None:
    """What is loaded in a room concerns everybody there."""
    if where.id == caller.room_id and changed:
        names = ", ".join(thing.label for thing in changed)
        rows.append(tx, where.id, "notice", f"{what} {names}", author_id=caller.agent.id)


def _listed(conn: Connection, caller: Caller, load: Loadout) -> list[NamespaceListed]:
    contexts = [caller.room_id, caller.agent.id]
    equipped = {row.thing.id for row in equipment.rows_of(conn, contexts) if row.live}
    on: dict[str, int] = {}
    for item in load.usable:
        on[item.thing.parent_id or ""] = on.get(item.thing.parent_id or "", 0) + 1
    held = loadout.states_of(conn, caller.room_id)
    held |= caller.world.found.get(caller.room_id, frozenset())
    found = namespaces.all_namespaces(conn, caller.room_id)
    by_id = {space.id: space for space in found}
    return [_one(space, by_id, equipped, on, held) for space in found]


def _one(
    space: Namespace,
    by_id: dict[str, Namespace],
    equipped: set[str],
    on: dict[str, int],
    held: frozenset[str],
) -> NamespaceListed:
    chain, above = [space], space.parent
    while above in by_id and len(chain) < things.DEPTH:
        chain.append(by_id[above])
        above = by_id[above].parent
    missing = namespaces.missing((state for link in chain for state in link.required_states), held)
    usable = all(link.thing.enabled and link.thing.available for link in chain)
    tools_on = on.get(space.thing.id, 0)
    return NamespaceListed(
        space.id,
        space.title,
        space.thing.description,
        space.keywords,
        space.parent,
        space.children,
        space.required_states,
        space.thing.auto_load,
        space.load_with_parent,
        bool(tools_on) or space.thing.id in equipped or space.thing.auto_load,
        usable and not missing,
        missing,
        space.tools,
        tools_on,
    )
