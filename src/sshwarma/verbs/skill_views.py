"""Views of skills: their list, and one with its instructions."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.terminal.text import Block, block, line, text_lines
from sshwarma.verbs.views import draw_columns, format_count, view, view_for_reader
from sshwarma.world.reader import Reader


@dataclass(frozen=True, slots=True)
class SkillListItem:
    """A skill as /skill list shows it."""

    id: int
    name: str
    description: str
    active: tuple[str, ...]  # room, me, @model: where it is active for the caller


@dataclass(frozen=True, slots=True)
class SkillList:
    """The skills of this server, and where each is active for the caller."""

    room: str
    skills: tuple[SkillListItem, ...]


@view_for_reader(SkillList)
def draw_skill_list(result: SkillList, reader: Reader) -> Block:
    """Draw the skills, and where each is active."""
    if not result.skills:
        hint = reader.hint(" {} makes one.", "skill new", name="NAME", text="INSTRUCTIONS")
        return block(f"No skills yet.{hint}")
    return block(
        line(("heading", "Skills:")),
        *draw_columns(
            (
                f"{skill.id}",
                ("thing", skill.name),
                ("ok", f"active: {', '.join(skill.active)}") if skill.active else ("dim", ""),
                skill.description,
            )
            for skill in result.skills
        ),
    )


@dataclass(frozen=True, slots=True)
class SkillDetails:
    """All details of one skill."""

    id: int
    name: str
    description: str
    text: str
    by: str
    active: tuple[str, ...]
    activations: int


@view(SkillDetails)
def draw_skill_details(skill: SkillDetails) -> Block:
    """Draw a skill: where it is active, and its instructions."""
    active = f"Active: {', '.join(skill.active)}" if skill.active else "Not active here"
    return block(
        line(("thing", f"skill:{skill.name}"), ("dim", f"  {skill.id}, by {skill.by}")),
        line(f"{active}; activated {format_count(skill.activations, 'time')}"),
        *([line(skill.description)] if skill.description else []),
        *text_lines(skill.text, indent=2),
    )
