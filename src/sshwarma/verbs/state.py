"""The verbs of `/state`: the states of a room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from sshwarma.common.limits import MAX_ROOM_STATES
from sshwarma.common.near_names import suggest_near_names
from sshwarma.common.shorten import shorten_name
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import (
    Arg,
    CompletionRequest,
    Option,
    Word,
)
from sshwarma.verbs.namespace import all_listed
from sshwarma.verbs.registry import group
from sshwarma.verbs.views import Confirmation, view
from sshwarma.world import namespace_fields, namespaces, things
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid
from sshwarma.world.projects import list_owners
from sshwarma.world.room_states import DIRECTORY_KEY, RoomStateWatcher
from sshwarma.world.store import Change

MCP_PREFIX: Final = "mcp:"


async def complete_needed_states(request: CompletionRequest) -> list[Option]:
    """List the states that a namespace requires and that are not set."""
    states = await request.caller.world.states(request.caller.room_id)
    summaries = await all_listed(request.caller)
    needs = {state: summary.id for summary in summaries for state in summary.required_states}
    return [
        (state, f"needed by {name}")
        for state, name in sorted(needs.items())
        if state not in states and not state.startswith(MCP_PREFIX)
    ]


async def complete_held_states(request: CompletionRequest) -> list[Option]:
    """List the states of the room, except those of MCP servers."""
    states = await request.caller.world.states(request.caller.room_id)
    return [(state, "") for state in sorted(states) if not state.startswith(MCP_PREFIX)]


NeededState: TypeAlias = Annotated[str, Arg(complete=complete_needed_states)]
HeldState: TypeAlias = Annotated[str, Arg(complete=complete_held_states)]


@dataclass(frozen=True, slots=True)
class RoomStates:
    """The states of a room: those set by hand, and those detected."""

    room: str
    set: tuple[str, ...]
    found: tuple[str, ...]


@view(RoomStates)
def draw_room_states(states: RoomStates) -> Block:
    """Draw the states of a room, the detected ones marked."""
    if not states.set and not states.found:
        return block(line(("room", states.room), " has no states."))
    return block(
        line(("heading", f"States of {states.room}:")),
        *(line("  ", ("ok", name)) for name in states.set),
        *(line("  ", ("ok", name), ("dim", "  detected")) for name in states.found),
    )


state = group(
    "state",
    section="Inventory",
    default_takes_words=True,
    spellings={"": "notes show", "show": "notes show", "clear": "notes clear"},
    doc="""Show and set the states of this room.

    Tools and namespaces may require states, such as ci-configured. They can be used only where
    those states are set. You add and remove states by hand; others are detected: mcp:NAME is set
    while that server is connected, project-loaded while the room's directory exists, git-present
    while it is under git.

    A model's notes about the room are shown by /notes; /state, /state @qwen and /state clear @qwen
    are other spellings of /notes.
    """,
)


@state.verb("list", needs=Right.ENTER, tool=False, examples=("/state list",))
async def list_states(caller: Caller) -> RoomStates:
    """List the states of this room."""
    return await _room_states(caller)


@state.verb("add", needs=Right.BUILD, tool=False, examples=("/state add ci-configured",))
async def add_state(caller: Caller, name: NeededState) -> Confirmation:
    """Set a state in this room.

    Args:
        name: the state: a lower-case letter, then letters, digits, `.`, `_` or `-`.
    """
    return await _set_state(caller, name, holds=True)


@state.verb("remove", needs=Right.BUILD, tool=False, examples=("/state remove ci-configured",))
async def remove_state(caller: Caller, name: HeldState) -> Confirmation:
    """Remove a state that was set by hand.

    Args:
        name: the state.
    """
    return await _set_state(caller, name, holds=False)


@state.verb(
    "directory",
    needs=Right.OWN,
    tool=False,
    examples=("/state directory", "/state directory /srv/project", "/state directory -"),
)
async def set_directory(caller: Caller, path: Word | None = None) -> Confirmation:
    """Show or set the directory of this room on the server.

    The project whose memory the room uses is that to which the path leads now, also if a link of
    it changes later.

    Args:
        path: an absolute path on the server; - for no directory.
    """
    room = await caller.room()
    thing = await caller.world.store.read(lambda conn: things.get_live_thing(conn, room.id))
    if path is None:
        current_directory = thing.metadata.get(DIRECTORY_KEY)
        return Confirmation(
            f"The directory of {room.name} is {current_directory}."
            if current_directory
            else f"{room.name} has no directory."
        )
    if path != "-" and (not path.startswith("/") or not path.isprintable()):
        raise Invalid(
            f"{shorten_name(path)!a} is not an absolute path.",
            hint="Use a path such as /srv/project.",
        )
    directory, project = None if path == "-" else path, None
    if directory is not None:
        project = await services_of(caller).projects.resolve_directory(directory)

    def work(tx: Change) -> list[str]:
        """Store them, and return the owners of the project."""
        things.set_metadata(tx, room.id, directory=directory, project_path=project)
        return [] if project is None else list_owners(tx.conn, project)

    owner_ids = await caller.change(work)
    await RoomStateWatcher(caller.world).check_once()
    if directory is None:
        return Confirmation(f"{room.name} has no directory now.")
    detected = sorted(caller.world.detected_states(room.id))
    summary = (
        f"Detected: {', '.join(detected)}." if detected else "It does not exist on the server."
    )
    if owner_ids:
        owners = ", ".join(sorted(map(caller.world.agents.name_of, owner_ids)))
        summary += f" Its project is that of {owners}, who may change what the room stores there."
    return Confirmation(f"The directory of {room.name} is now {directory}. {summary}")


async def _room_states(caller: Caller) -> RoomStates:
    room = await caller.room()
    thing = await caller.world.store.read(lambda conn: things.get_live_thing(conn, room.id))
    manual_states = namespaces.read_metadata_words(thing, "states")
    holding = await caller.world.states(room.id)
    return RoomStates(room.name, manual_states, tuple(sorted(holding - set(manual_states))))


async def _set_state(caller: Caller, name: str, *, holds: bool) -> Confirmation:
    room = await caller.room()
    is_detected = name.startswith(MCP_PREFIX) or name in (await _room_states(caller)).found
    if not holds and is_detected:
        raise Invalid(
            f"{shorten_name(name)} is detected and cannot be removed by hand.",
            hint="mcp:NAME is set while that server is connected; the others depend on the room's"
            " directory.",
        )
    if holds and name.startswith(MCP_PREFIX):
        raise Invalid(
            f"{shorten_name(name)} is detected: it is set while that server is connected."
        )
    if not namespace_fields.STATE_NAME_PATTERN.fullmatch(name):
        raise Invalid(
            f"{shorten_name(name) or 'Nothing'} cannot be the name of a state.",
            hint="A name is a lower-case letter, then letters, digits, . _ or -, such as"
            " ci-configured.",
        )

    def work(tx: Change) -> tuple[str, ...] | None:
        """Return the states as they stay, or None if they change."""
        states = namespaces.read_metadata_words(things.get_live_thing(tx.conn, room.id), "states")
        if (name in states) is holds:
            return states
        if len(states) >= MAX_ROOM_STATES and holds:
            raise Invalid(f"A room can have at most {MAX_ROOM_STATES} states.")
        new_states = [*states, name] if holds else [word for word in states if word != name]
        things.set_metadata(tx, room.id, states=new_states or None)
        caller.append_notice(tx, f"{'set' if holds else 'removed'} the state {name}")
        return None

    unchanged_states = await caller.change(work)
    if unchanged_states is not None:
        near = "" if holds else suggest_near_names(name, unchanged_states)
        problem = f"The state {name} is {'already set' if holds else 'not set'} in {room.name}."
        return Confirmation(f"{problem} {near}".rstrip())
    if holds:
        return Confirmation(f"Set the state {name} in {room.name}.")
    return Confirmation(f"Removed the state {name} from {room.name}.")
