"""The verbs of `/skill`: instructions that are active in a room or on an agent."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from sqlalchemy import Connection, select

from sshwarma.common.limits import MAX_SKILL_BYTES, MAX_SKILL_DESCRIPTION_CHARACTERS
from sshwarma.verbs.arguments import (
    Arg,
    CompletionRequest,
    Context,
    Option,
    Priority,
    TextAfterEquals,
    Word,
)
from sshwarma.verbs.edit_draft import EditDraft, make_edit_draft
from sshwarma.verbs.registry import group
from sshwarma.verbs.resolve import (
    describe_context,
    find_context,
    name_context,
    open_context,
    require_maker_or_admin,
)
from sshwarma.verbs.rights import MAKER_RIGHT, ContextRight, default_context
from sshwarma.verbs.skill_views import SkillDetails, SkillList, SkillListItem
from sshwarma.verbs.views import Confirmation
from sshwarma.world import equipment, skills, text_history, things
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import empty_error, too_long_error
from sshwarma.world.reader import next_call
from sshwarma.world.schema import equipped
from sshwarma.world.store import Change
from sshwarma.world.things import Thing


async def complete_skills(request: CompletionRequest) -> list[Option]:
    """List every skill."""
    stored_skills = await request.caller.world.memoized("skills", skills.read_skills)
    return [(skill.name, skill.description) for skill in stored_skills]


SkillName: TypeAlias = Annotated[str, Arg(complete=complete_skills)]
SkillDescription: TypeAlias = Annotated[str, Arg(old_flags=("about",))]
NewName: TypeAlias = Annotated[str, Arg(particle="=")]
"""A new name of a thing, with or without `=` before it."""


skill = group(
    "skill",
    section="Models",
    default="list",
    spellings={"add": "skill new", "delete": "skill remove"},
    doc="""Write and activate instructions for models.

    A skill that is active in a room is sent to every model that answers there; one that is active
    on an agent is sent to that agent in every room. A change applies from the next answer on.

    Skills belong to the server: everyone on it can read them, also those made in a private room.

    /skill add is another spelling of /skill new, /skill delete of /skill remove, and --about of
    --description.
    """,
)


@skill.verb("list", needs=Right.ENTER, examples=("/skill list",))
async def list_skills(caller: Caller) -> SkillList:
    """List skills and where they are active."""

    def read(conn: Connection) -> list[SkillListItem]:
        on = _read_activations(conn, caller)
        return [
            SkillListItem(
                int(thing.metadata.get("number", 0)),
                thing.name,
                thing.description,
                on.get(thing.id, ()),
            )
            for thing in skills.read_skills(conn)
        ]

    items = await caller.world.store.read(read)
    return SkillList((await caller.room()).name, tuple(items))


@skill.verb("show", needs=Right.ENTER, examples=("/skill show reviewer", "/skill show 2"))
async def show_skill(caller: Caller, name: SkillName) -> SkillDetails:
    """Show the instructions of a skill, which everyone on the server can read.

    Args:
        name: the skill, by name or number.
    """
    thing = await _find(caller, name)
    on = await caller.world.store.read(lambda conn: _read_activations(conn, caller))
    return SkillDetails(
        id=int(thing.metadata.get("number", 0)),
        name=thing.name,
        description=thing.description,
        text=thing.content or "",
        by=caller.world.agents.name_of(thing.created_by),
        active=on.get(thing.id, ()),
        activations=int(thing.metadata.get("activations", 0)),
    )


@skill.verb(
    "new",
    needs=Right.CREATE,
    tool="skill_add",  # its name before: worlds have it equipped
    examples=(
        "/skill new reviewer = Look for bugs first, for style last.",
        "/skill new terse --description 'short answers' = Answer in one sentence.",
    ),
)
async def create_skill(
    caller: Caller, name: Word, text: TextAfterEquals, *, description: SkillDescription = ""
) -> Confirmation:
    """Make a skill, which everyone on the server can read.

    Args:
        name: its name.
        text: its instructions, at most {MAX_SKILL_BYTES}.
        description: what it is for, at most {MAX_SKILL_DESCRIPTION_CHARACTERS} characters.
    """
    name = name.lower()
    instructions = _check_skill_text(caller, text)
    description = _check_description(description)
    thing = await caller.change(
        lambda tx: skills.create_skill(tx, name, instructions, description, caller.agent.id)
    )
    return Confirmation(
        f"Made skill {name} ({thing.metadata['number']}): {len(instructions)} characters.",
        next_call("{} activates it here.", "skill activate", name=name),
    )


@skill.verb(
    "edit",
    needs=Right.ENTER,
    also_needs=(MAKER_RIGHT,),
    needs_one_of=("text", "description"),
    scope=TokenScope.BUILD,
    examples=(
        "/skill edit reviewer = Look for bugs first.",
        "/skill edit reviewer --description 'code review'",
        "/skill edit reviewer",
    ),
)
async def edit_skill(
    caller: Caller,
    name: SkillName,
    text: TextAfterEquals | None = None,
    *,
    description: SkillDescription | None = None,
) -> Confirmation | EditDraft:
    """Change the instructions of a skill.

    For people:
        At a terminal, without new instructions, the line editor opens the present ones.

    Args:
        name: the skill, by name or number.
        text: its new instructions, at most {MAX_SKILL_BYTES}.
        description: what it is for, at most {MAX_SKILL_DESCRIPTION_CHARACTERS} characters.
    """
    thing = await _find(caller, name)
    await _require_maker(caller, thing)
    if text is None and description is None:
        present = thing.content or ""
        line = f"/skill edit {thing.name}"
        return make_edit_draft(caller, thing.name, present, line, language="markdown")
    instructions = None if text is None else _check_skill_text(caller, text)
    new_description = None if description is None else _check_description(description)

    def work(tx: Change) -> None:
        if instructions is not None:
            text_history.change_text(tx, thing, instructions, by=caller.agent.id)
        if new_description is not None:
            things.update_thing(tx, thing.id, description=new_description or None)

    await caller.change(work)
    return Confirmation(f"Changed skill {thing.name}.")


@skill.verb(
    "rename",
    needs=Right.ENTER,
    also_needs=(MAKER_RIGHT,),
    scope=TokenScope.BUILD,
    examples=("/skill rename reviewer = critic",),
)
async def rename_skill(caller: Caller, name: SkillName, new: NewName) -> Confirmation:
    """Rename a skill.

    Args:
        name: the skill, by name or number.
        new: its new name.
    """
    thing = await _find(caller, name)
    await _require_maker(caller, thing)
    await caller.change(lambda tx: skills.rename_skill(tx, thing, new.lower()))
    return Confirmation(f"Skill {thing.name} is {new.lower()} now.")


@skill.verb(
    "remove",
    needs=Right.ENTER,
    also_needs=(MAKER_RIGHT,),
    scope=TokenScope.BUILD,
    tool="skill_delete",  # its name before: worlds have it equipped
    examples=("/skill remove reviewer",),
)
async def remove_skill(caller: Caller, name: SkillName) -> Confirmation:
    """Remove a skill.

    Args:
        name: the skill, by name or number.
    """
    thing = await _find(caller, name)
    await _require_maker(caller, thing)
    await caller.change(lambda tx: things.delete_thing(tx, thing))
    return Confirmation(f"Removed skill {thing.name}.")


@skill.verb(
    "activate",
    needs=Right.ENTER,
    also_needs=(ContextRight("context"),),
    scope=TokenScope.BUILD,
    examples=(
        "/skill activate reviewer",
        "/skill activate reviewer @qwen",
        "/skill activate reviewer --priority 2 me",
    ),
)
async def activate_skill(
    caller: Caller,
    name: SkillName,
    context: Context | None = None,
    *,
    priority: Priority | None = None,
) -> Confirmation:
    """Activate a skill.

    Args:
        name: the skill, by name or number.
        context: room, me or @agent (default: room; for a model, me).
        priority: its place among the instructions; a smaller number comes earlier.
    """
    return await _switch_skill(caller, name, context, priority, on=True)


@skill.verb(
    "deactivate",
    needs=Right.ENTER,
    also_needs=(ContextRight("context"),),
    scope=TokenScope.BUILD,
    examples=("/skill deactivate reviewer", "/skill deactivate reviewer @qwen"),
)
async def deactivate_skill(
    caller: Caller, name: SkillName, context: Context | None = None
) -> Confirmation:
    """Deactivate a skill.

    Args:
        name: the skill, by name or number.
        context: room, me or @agent (default: room; for a model, me).
    """
    return await _switch_skill(caller, name, context, None, on=False)


async def _switch_skill(
    caller: Caller, name: str, target: str | None, priority: float | None, *, on: bool
) -> Confirmation:
    thing = await _find(caller, name)
    word = target or default_context(caller)
    context = await find_context(caller, word)

    def work(tx: Change) -> bool:
        target, were_on = open_context(tx, caller, context, [thing])
        if on:
            changed, _ = equipment.equip_things(tx, target.id, [thing], priority)
        else:
            changed, _ = equipment.unequip_things(tx, target.id, [thing])
            changed = changed or were_on
        if changed and on:
            skills.count_activation(tx, things.get_live_thing(tx.conn, thing.id))
        if changed and context.id == caller.room_id:
            caller.append_notice(
                tx, f"{'activated' if on else 'deactivated'} the skill {thing.name}"
            )
        return bool(changed)

    changed = await caller.change(work)
    place = describe_context(name_context(caller, word, context))
    if not changed:
        return Confirmation(
            f"Skill {thing.name} {'is' if on else 'was not'} active {place}{' already' * on}."
        )
    return Confirmation(f"Skill {thing.name} is {'active' if on else 'no longer active'} {place}.")


async def _find(caller: Caller, name: str) -> Thing:
    return await caller.world.store.read(lambda conn: skills.find_skill(conn, name))


def _read_activations(conn: Connection, caller: Caller) -> dict[str, tuple[str, ...]]:
    """Read where things are equipped, among the caller's contexts; by thing id."""
    in_room_id = equipment.agent_in_room_id(caller.agent.id, caller.room_id)
    names = {caller.room_id: "room", caller.agent.id: "me", in_room_id: "me"} | {
        agent.id: f"@{agent.name}"
        for agent in caller.world.agents
        if agent.kind == "model" and agent.id != caller.agent.id
    }
    query = select(equipped.c.thing_id, equipped.c.context_id).where(
        equipped.c.context_id.in_(list(names)), equipped.c.deleted_at.is_(None)
    )
    places: dict[str, tuple[str, ...]] = {}
    for thing_id, context_id in conn.execute(query):
        places[thing_id] = (*places.get(thing_id, ()), names[context_id])
    return places


async def _require_maker(caller: Caller, skill: Thing) -> None:
    await require_maker_or_admin(caller, skill, f"the skill {skill.name}")


def _check_skill_text(caller: Caller, text: str) -> str:
    instructions = text.strip()
    if not instructions:
        example = next_call("Use {}.", "skill new", name="NAME", text="TEXT")
        raise empty_error("text", hint=example)
    if (size := len(instructions.encode())) > MAX_SKILL_BYTES:
        raise too_long_error("text", size, MAX_SKILL_BYTES, "bytes")
    caller.charge_text_volume(size)
    return instructions


def _check_description(description: str) -> str:
    if len(description) > MAX_SKILL_DESCRIPTION_CHARACTERS:
        raise too_long_error("description", len(description), MAX_SKILL_DESCRIPTION_CHARACTERS)
    return description
