"""Skills, notes and values of an import; nothing is replaced."""

from __future__ import annotations

from sshwarma.common.limits import MAX_PROJECT_PATH_CHARACTERS
from sshwarma.common.shorten import shorten_name
from sshwarma.common.visible_nul import replace_nul
from sshwarma.imports.items import NotesItem, SkillItem, ValueItem
from sshwarma.imports.taking_rooms import ImportRun, make_name
from sshwarma.world import memory, notes, projects, skills, things
from sshwarma.world.access import Right, compute_rights, read_members
from sshwarma.world.errors import WorldError


def take_notes(run: ImportRun, item: NotesItem) -> None:
    """Store the notes of the model in a room that has none of it."""
    room = run.rooms[item.session]
    present = notes.read_notes(run.tx.conn, room.id, run.model.name)
    if not present:
        notes.write_notes(run.tx, room.id, run.model.id, run.model.name, replace_nul(item.text))
        run.report.count("notes", "new")
        return
    run.report.count("notes", "known")
    if present != replace_nul(item.text):
        reason = f"the notes of {run.model.name} in the room are others, and stay"
        run.report.leave_out("changes", item.session, reason)


def take_skill(run: ImportRun, item: SkillItem) -> None:
    """Make a skill, unless there is one of its name."""
    name = make_name(item.name)
    text = replace_nul(item.text)
    known = things.find_child(run.tx.conn, skills.SKILLS_CONTAINER, name, "data")
    if known is None:
        try:
            skills.create_skill(run.tx, name, text, item.description, run.person.id)
        except WorldError as error:
            run.report.leave_out("skills", item.name, error.message)
            return
        run.report.count("skills", "new")
        return
    run.report.count("skills", "known")
    if (known.content or "") != text:
        reason = f"the skill {name} has another text here, and stays"
        run.report.leave_out("changes", item.name, reason)


def take_value(run: ImportRun, item: ValueItem) -> None:
    """Store a value of a project, unless the key has one."""
    name = f"{item.key} of {item.project}"
    path = run.projects.paths.get(item.project, "")
    if not path:
        reason = "the path of the project does not begin with /, or is no path of this machine"
        run.report.leave_out("values", name, reason)
        return
    try:
        memory.check_key(item.key)
    except WorldError as error:
        run.report.leave_out("values", shorten_name(name), error.message)
        return
    if len(item.value.encode()) > run.thing_bytes:
        limit = f"longer than {run.thing_bytes:,} bytes (limits.thing_bytes)"
        run.report.leave_out("values", name, limit)
        return
    _store_value(run, item, path, name)


def _store_value(run: ImportRun, item: ValueItem, path: str, name: str) -> None:
    known_project = projects.find_project(run.tx.conn, path)
    if known_project is not None and not _may_change(run, known_project.id):
        reason = f"{run.person.name} is no member of the project, whose owner can add them"
        run.report.leave_out("values", name, reason)
        return
    is_of_room = path == run.projects.start or projects.is_project_of_room(run.tx.conn, path)
    if known_project is None and is_of_room and not _may_change(run, ""):
        run.report.leave_out("values", name, "a room uses the project, and admins alone may change")
        return
    run.report.projects.setdefault(path, "new" if known_project is None else "known")
    # As in the world: who stores something first owns the project, unless it is that of a room.
    owner_id = None if is_of_room else run.person.id
    project = known_project or projects.create_project(
        run.tx, path, owner_id=owner_id, created_by=run.person.id
    )
    value = memory.find_value(run.tx.conn, project.id, item.key)
    if value is None:
        try:
            memory.write_value(run.tx, project.id, item.key, item.value, author_id=run.person.id)
        except WorldError as error:
            run.report.leave_out("values", name, error.message)
            return
        run.report.count("values", "new")
        return
    run.report.count("values", "known")
    if (value.content or "") != replace_nul(item.value):
        reason = "the key has another value here, which stays"
        run.report.leave_out("values", name, reason)


def _may_change(run: ImportRun, project_id: str) -> bool:
    """Return whether the person may change a project; "" for one that has no members."""
    members = read_members(run.tx.conn, project_id)
    rights = compute_rights(run.person, "private", members.get(run.person.id), run.tx.now)
    return Right.TALK in rights


def check_project_path(path: str) -> bool:
    """Return whether a path of a source can be that of a project."""
    return path.startswith("/") and path.isprintable() and len(path) <= MAX_PROJECT_PATH_CHARACTERS
