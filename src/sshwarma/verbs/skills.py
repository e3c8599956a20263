"""Skills: instructions that are switched on and off, for a room or for one agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from sqlalchemy import Connection, select

from sshwarma.common.limits import MAX_SKILL_BYTES, MAX_SKILL_SUMMARY_CHARACTERS
from sshwarma.terminal.text import Block, block, line, text_lines
from sshwarma.verbs.arguments import Arg, Priority, Word
from sshwarma.verbs.registry import verb
from sshwarma.verbs.resolve import require_maker_or_admin, resolve_context
from sshwarma.verbs.views import Confirmation, draw_columns, format_count, view
from sshwarma.world import equipment, skills, things
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid
from sshwarma.world.schema import equipped
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

SkillAction = Literal["list", "show", "add", "edit", "rename", "delete", "activate", "deactivate"]


@dataclass(frozen=True, slots=True)
class SkillListItem:
    id: int
    name: str
    about: str
    active: tuple[str, ...]  # room, me: where, as far as the one who asks is concerned


@dataclass(frozen=True, slots=True)
class SkillList:
    room: str
    skills: tuple[SkillListItem, ...]


@view(SkillList)
def draw_skill_list(result: SkillList) -> Block:
    if not result.skills:
        return block("There are no skills yet: /skill add NAME = what a model is to do.")
    return block(
        line(("heading", "Skills:")),
        *draw_columns(
            (
                f"{skill.id}",
                ("thing", skill.name),
                ("ok", f"active: {', '.join(skill.active)}") if skill.active else ("dim", ""),
                skill.about,
            )
            for skill in result.skills
        ),
    )


@dataclass(frozen=True, slots=True)
class SkillDetails:
    id: int
    name: str
    about: str
    text: str
    by: str
    active: tuple[str, ...]
    activations: int


@view(SkillDetails)
def draw_skill_details(skill: SkillDetails) -> Block:
    active = ", ".join(skill.active) or "nowhere here"
    return block(
        line(("thing", f"skill:{skill.name}"), ("dim", f"  {skill.id}, by {skill.by}")),
        line(f"Active: {active}; activated {format_count(skill.activations, 'time')}"),
        *([line(skill.about)] if skill.about else []),
        *text_lines(skill.text, indent=2),
    )


@verb(
    "skill",
    group="Models",
    needs=Right.ENTER,
    examples=(
        "/skill list",
        "/skill add reviewer = Look for bugs first, for style last.",
        "/skill activate reviewer",
        "/skill activate reviewer --priority 2 me",
        "/skill deactivate reviewer",
        "/skill rename reviewer critic",
    ),
    scope=TokenScope.BUILD,
)
async def skill(
    caller: Caller,
    what: SkillAction = "list",
    name: Word | None = None,
    text: Annotated[str, Arg("text", rest=True, particle="=")] | None = None,
    *,
    about: Word | None = None,
    priority: Priority | None = None,
) -> SkillList | SkillDetails | Confirmation:
    """Instructions for models, switched on and off

    A skill that is active in a room is told to every model that answers there; one that is active
    on an agent to that agent everywhere. Changing it changes what they are told from the next
    answer on. /skill edit without a text shows the text to be changed.

    what: list, show, add, edit, rename, delete, activate or deactivate.
    name: the skill, by name or number.
    text: for add and edit its instructions; for rename the new name; for activate and deactivate
        where: room, me or @agent (the room if left out; a model's own self).
    about: for add and edit: what it is for, in a line.
    priority: for activate: where it stands among what is told; smaller is earlier.
    """
    if what == "list":
        return await _list_skills(caller)
    if not name:
        raise Invalid(f"Say which skill: /skill {what} NAME.")
    if about is not None and len(about) > MAX_SKILL_SUMMARY_CHARACTERS:
        raise Invalid(f"What a skill is for fits in {MAX_SKILL_SUMMARY_CHARACTERS} characters.")
    if what == "add":
        return await _add_skill(caller, name.lower(), text, about or "")
    found = await caller.world.store.read(lambda conn: skills.find_skill(conn, name))
    match what:
        case "show":
            return await _read_skill_details(caller, found)
        case "activate" | "deactivate":
            return await _switch_skill(caller, found, text, priority, on=what == "activate")
        case "edit":
            return await _edit_skill(caller, found, text, about)
        case "rename":
            return await _rename_skill(caller, found, text)
        case _:
            await _check_may_change(caller, found)
            await caller.change(lambda tx: things.delete_thing(tx, found))
            return Confirmation(f"Deleted skill {found.name}.")


async def _add_skill(caller: Caller, name: str, text: str | None, about: str) -> Confirmation:
    await caller.require(Right.CREATE)
    words = _check_skill_text(text)
    made = await caller.change(
        lambda tx: skills.create_skill(tx, name, words, about, caller.agent.id)
    )
    number = made.metadata["number"]
    return Confirmation(
        f"Made skill {name} ({number}): {format_count(len(words), 'character')}."
        f" /skill activate {name} switches it on here."
    )


async def _edit_skill(
    caller: Caller, found: Thing, text: str | None, about: str | None
) -> Confirmation:
    await _check_may_change(caller, found)
    if text is None and about is None:
        raise Invalid("Say what it is to be.", hint=f"/skill edit {found.name} = its instructions")

    def work(tx: Change) -> None:
        if text is not None:
            things.update_thing(tx, found.id, content=_check_skill_text(text))
        if about is not None:
            things.update_thing(tx, found.id, description=about or None)

    await caller.change(work)
    return Confirmation(f"Changed skill {found.name}.")


async def _rename_skill(caller: Caller, found: Thing, text: str | None) -> Confirmation:
    await _check_may_change(caller, found)
    if not text:
        raise Invalid(f"Say its new name: /skill rename {found.name} NEW.")
    new = text.strip().lower()
    await caller.change(lambda tx: skills.rename_skill(tx, found, new))
    return Confirmation(f"Skill {found.name} is {new} now.")


async def _switch_skill(
    caller: Caller, found: Thing, where: str | None, priority: float | None, *, on: bool
) -> Confirmation:
    usual = "me" if caller.agent.kind == "model" else "room"
    word = (where or usual).strip()
    context = await resolve_context(caller, word)

    def work(tx: Change) -> bool:
        if on:
            changed, _ = equipment.equip_things(tx, context.id, [found], priority)
        else:
            changed, _ = equipment.unequip_things(tx, context.id, [found])
        if changed and on:
            skills.count_activation(tx, things.get_live_thing(tx.conn, found.id))
        if changed and context.id == caller.room_id:
            did = "activated" if on else "deactivated"
            told = f"{did} the skill {found.name}"
            caller.tell(tx, told)
        return bool(changed)

    changed = await caller.change(work)
    where = {"room": "in this room", "me": "on you"}.get(word, f"on {word}")
    if not changed:
        return Confirmation(
            f"Skill {found.name} {'is' if on else 'was not'} active {where}{' already' * on}."
        )
    return Confirmation(f"Skill {found.name} is {'active' if on else 'no longer active'} {where}.")


async def _list_skills(caller: Caller) -> SkillList:
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

    found = await caller.world.store.read(read)
    return SkillList((await caller.room()).name, tuple(found))


async def _read_skill_details(caller: Caller, found: Thing) -> SkillDetails:
    on = await caller.world.store.read(lambda conn: _read_activations(conn, caller))
    return SkillDetails(
        int(found.metadata.get("number", 0)),
        found.name,
        found.description,
        found.content or "",
        caller.world.agents.name_of(found.created_by),
        on.get(found.id, ()),
        int(found.metadata.get("activations", 0)),
    )


def _read_activations(conn: Connection, caller: Caller) -> dict[str, tuple[str, ...]]:
    """Where things are equipped of the places the caller is concerned with: by thing id."""
    names = {caller.room_id: "room", caller.agent.id: "me"} | {
        agent.id: f"@{agent.name}"
        for agent in caller.world.agents
        if agent.kind == "model" and agent.id != caller.agent.id
    }
    query = select(equipped.c.thing_id, equipped.c.context_id).where(
        equipped.c.context_id.in_(list(names)), equipped.c.deleted_at.is_(None)
    )
    found: dict[str, tuple[str, ...]] = {}
    for thing_id, context_id in conn.execute(query):
        found[thing_id] = (*found.get(thing_id, ()), names[context_id])
    return found


async def _check_may_change(caller: Caller, found: Thing) -> None:
    maker = caller.world.agents.name_of(found.created_by)
    await require_maker_or_admin(
        caller,
        found,
        f"The skill {found.name} is {maker}'s: {maker} or an administrator changes it.",
    )


def _check_skill_text(text: str | None) -> str:
    words = (text or "").strip()
    if not words:
        raise Invalid("Say what a model is to do.", hint="/skill add NAME = its instructions")
    if len(words.encode()) > MAX_SKILL_BYTES:
        raise Invalid(f"The instructions of a skill have at most {MAX_SKILL_BYTES} bytes.")
    return words
