"""Storing a step of an import in a world, in one change.

What a step has already stored is found again, so that it may be repeated. A dry run does the same
change, and takes it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sshwarma.imports import taking_rooms, taking_rows, taking_texts
from sshwarma.imports.items import Step
from sshwarma.imports.report import ImportReport
from sshwarma.imports.taking_rooms import ImportRun, SourceProjects
from sshwarma.world import agents
from sshwarma.world.agents import Agent
from sshwarma.world.errors import Conflict, NotFound, unknown_name_error
from sshwarma.world.store import Change
from sshwarma.world.world import World


class _TakenBack(Exception):
    """Ends the change of a dry run, so that nothing of it is stored."""

    def __init__(self, report: ImportReport) -> None:
        super().__init__()
        self.report = report


async def take_step(
    world: World, step: Step, *, person: str, model: str, thing_bytes: int,
    paths: Mapping[str, str], start_project: str = "",
) -> ImportReport:  # fmt: skip
    """Store a step; return what was new.

    Args:
        world: the world.
        step: what to store.
        person: name of the agent whose rooms and values they are.
        model: name of the model that has answered; it is made if it is missing.
        thing_bytes: bytes that a value may have.
        paths: canonical paths of the projects of its values, by their paths in the source.
        start_project: the project of the directory in which the server was started; "" without one.
    """
    projects = SourceProjects(paths, start_project)
    return await world.change(
        lambda tx: _take(tx, step, person, model, thing_bytes=thing_bytes, projects=projects)
    )


async def try_step(
    world: World, step: Step, *, person: str, model: str, thing_bytes: int,
    paths: Mapping[str, str], start_project: str = "",
) -> ImportReport:  # fmt: skip
    """Return what `take_step` would do; the world stays as it is."""
    projects = SourceProjects(paths, start_project)

    def work(tx: Change) -> None:
        raise _TakenBack(_take(tx, step, person, model, thing_bytes=thing_bytes, projects=projects))

    try:
        await world.change(work)
    except _TakenBack as taken_back:
        return taken_back.report
    raise AssertionError("a dry run was stored")


def _take(
    tx: Change, step: Step, person: str, model: str, *, thing_bytes: int, projects: SourceProjects
) -> ImportReport:
    run = ImportRun(
        tx, find_person(tx, person), _get_or_create_model(tx, model), thing_bytes, projects
    )
    for room in step.rooms:
        taking_rooms.get_or_create_room(run, room)
    if step.kind == "rows":
        taking_rows.take_rows(run, step.items)
        return run.report
    for item in step.items:
        _TAKERS[step.kind](run, item)
    return run.report


_TAKERS: Final[dict[str, Any]] = {
    "rooms": taking_rooms.take_room,
    "notes": taking_texts.take_notes,
    "usage": taking_rows.take_usage,
    "skills": taking_texts.take_skill,
    "values": taking_texts.take_value,
}


def find_person(tx: Change, name: str) -> Agent:
    """Return the person of a name.

    Raises:
        NotFound: if nobody has that name.
        Conflict: if it is a model.
    """
    agent = agents.read_agent_named(tx.conn, name)
    if agent is None:
        known = [one.name for one in agents.read_agents(tx.conn)[0] if one.kind == "person"]
        hint = "List them with: sshwarma agents list"
        raise unknown_name_error("person", name, known=known, hint=hint)
    if agent.kind != "person":
        raise Conflict(f"{agent.name} is a model, and owns no rooms.", hint="Name a person.")
    return agent


def check_model(conn: Any, name: str) -> Agent | None:
    """Return the model of a name, or None if there is no agent of that name.

    Raises:
        Conflict: if it is a person.
    """
    agent = agents.read_agent_named(conn, name)
    if agent is not None and agent.kind != "model":
        hint = "Give another name with --model NAME."
        raise Conflict(f"{agent.name} is a person, and not a model.", hint=hint)
    return agent


def _get_or_create_model(tx: Change, name: str) -> Agent:
    """Return the model of a name; one that is made does not answer until it is added."""
    if not name:  # a source without answers
        return Agent("", "")
    agent = check_model(tx.conn, name)
    if agent is None:
        agent = agents.create_agent(tx, name, role="guest", kind="model")
        agents.update_agent(tx, agent.id, retired=True)
    return agent


def choose_person(world: World, name: str | None) -> str:
    """Return the name of the person for whom an import is.

    That is the only owner, unless one is named.

    Raises:
        NotFound: if there is no owner, or there are several.
    """
    if name:
        return name
    owners = [one.name for one in world.agents if one.role == "owner" and one.kind == "person"]
    if len(owners) == 1:
        return owners[0]
    if owners:
        listed = ", ".join(sorted(owners)[:5])
        raise NotFound(f"Several people own this world: {listed}.", hint="Give --person NAME.")
    hint = "Make one with sshwarma keys add NAME FILE --role owner, or give --person NAME."
    raise NotFound("Nobody owns this world yet.", hint=hint)
