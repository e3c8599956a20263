"""The checks of models against the world they are in, by `sshwarma doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from sshwarma.admin import data_dir_owner
from sshwarma.admin.check_result import CheckResult, Reason, warn
from sshwarma.admin.data_dir_lock import is_served
from sshwarma.admin.doctor_providers import check_models
from sshwarma.admin.owners_in_file import read_agents_of
from sshwarma.admin.world_place import (
    UnreadableWorldError,
    WorldPlace,
    data_dir_of,
    find_place,
    read_world,
)
from sshwarma.settings import Settings
from sshwarma.world.things import describe_kind


def check_world_models(
    settings: Settings, environ: Mapping[str, str], *, is_asked: bool
) -> Iterator[CheckResult]:
    """Check models, also whether somebody else in the world has their names.

    `environ` has the variables of a running server if that `is_asked`.
    """
    names = _read_names(find_place(settings)) if settings.models else []
    taken = {f"model {name}": (name, kind) for name, kind in names}
    for check in check_models(settings, environ):
        if check.name in taken:
            name, kind = taken[check.name]
            detail = f"{name} is already the name of {describe_kind(kind)}"
            yield CheckResult(check.name, False, detail, "give it another name in [[models]]")
        elif (
            check.reason is Reason.MISSING_VARIABLE
            and not is_asked
            and _has_server(settings.data_dir)
        ):
            yield warn(check.name, f"{check.detail}; the running server may have one", check.remedy)
        else:
            yield check
    yield from _check_rooms_of_models(settings)


def _has_server(data_dir: Path) -> bool:
    """Return whether a server runs on a directory; False for one of another user."""
    try:
        data_dir_owner.check_data_dir_owner(data_dir)
        return is_served(data_dir)
    except (data_dir_owner.ForeignDataDirError, OSError):
        return False  # other checks report the problem


def _check_rooms_of_models(settings: Settings) -> Iterator[CheckResult]:
    """Warn of rooms of models that do not exist: they may be made later."""
    if not any(model.rooms for model in settings.models):
        return
    query = "SELECT name FROM chats"
    try:
        rooms = read_world(
            find_place(settings), lambda conn: set(conn.exec_driver_sql(query).scalars())
        )
    except UnreadableWorldError:  # no database yet; or another check reports the problem
        return
    for model in settings.models:
        if missing := [name for name in model.rooms if name not in rooms]:
            yield warn(
                f"model {model.name}",
                f"these rooms of it do not exist: {', '.join(missing)}",
                "correct rooms in [[models]], or create them",
            )


def _read_names(place: WorldPlace) -> list[tuple[str, str]]:
    """Return name and kind of all agents that are no models, if they can be read."""
    try:
        data_dir_owner.check_data_dir_owner(data_dir_of(place))
        if isinstance(place, Path) and not place.exists():
            return []
        agents, _ = read_agents_of(place)
    except (data_dir_owner.ForeignDataDirError, OSError, UnreadableWorldError):
        return []  # other checks report the problem
    return [(agent.name, agent.kind) for agent in agents if agent.kind != "model"]
