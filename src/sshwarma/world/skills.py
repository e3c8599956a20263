"""Skills: instructions that are put into a model's context while they are active.

A skill is a data thing in the container `skills`, referred to as `skill:NAME` or by a number. It is
active where it is equipped: on a room for every model there, on an agent for that one everywhere.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, func, select

from sshwarma.world import things
from sshwarma.world.errors import Conflict, unknown_name_error
from sshwarma.world.names import check_name
from sshwarma.world.portable_sql import extract_integer
from sshwarma.world.reader import next_call
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

SKILLS_CONTAINER: Final = "skills"
SKILL_ROLE: Final = "skill"
SKILL_PREFIX: Final = "skill:"


def read_skills(conn: Connection) -> list[Thing]:
    """Every live skill, by name."""
    children = things.read_children(conn, SKILLS_CONTAINER, "data")
    return [thing for thing in children if thing.metadata.get("role") == SKILL_ROLE]


def find_skill(conn: Connection, name: str) -> Thing:
    """Return the skill with that name, with or without `skill:`, or with that number.

    Raises:
        NotFound: if there is no such skill.
    """
    plain = name.removeprefix(SKILL_PREFIX)
    skills = read_skills(conn)
    for thing in skills:
        if plain in (thing.name, str(thing.metadata.get("number"))):
            return thing
    names = [thing.name for thing in skills]
    raise unknown_name_error(
        "skill", plain, known=names, hint=next_call("{} lists them.", "skill list")
    )


def create_skill(tx: Change, name: str, text: str, description: str, created_by: str) -> Thing:
    """Create a skill.

    Raises:
        Invalid: if the name is not valid.
        Conflict: if the name is taken.
    """
    check_name(name, "skill")
    if any(thing.name == name for thing in read_skills(tx.conn)):
        raise Conflict(
            f"The skill {name} already exists.",
            hint=next_call("Change it with {}.", "skill edit", name=name),
        )
    newest_number = func.max(extract_integer(things_table.c.metadata, "number"))
    query = select(newest_number).where(things_table.c.parent_id == SKILLS_CONTAINER)
    number = (tx.conn.execute(query).scalar() or 0) + 1
    return things.create_thing(
        tx,
        SKILLS_CONTAINER,
        "data",
        name,
        qualified_name=SKILL_PREFIX + name,
        description=description,
        content=text,
        metadata={"role": SKILL_ROLE, "number": number},
        created_by=created_by,
    )


def rename_skill(tx: Change, skill: Thing, name: str) -> Thing:
    """Rename a skill; it stays active where it is.

    Raises:
        Invalid, Conflict: as `create_skill`.
    """
    check_name(name, "skill")
    if any(thing.name == name for thing in read_skills(tx.conn)):
        raise Conflict(f"The skill {name} already exists.")
    return things.update_thing(tx, skill.id, name=name, qualified_name=SKILL_PREFIX + name)


def count_activation(tx: Change, skill: Thing) -> None:
    """Count an activation of a skill."""
    times = int(skill.metadata.get("activations", 0)) + 1
    things.set_metadata(tx, skill.id, structural=False, activations=times)
