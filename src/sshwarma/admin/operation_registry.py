"""The registry of operations, and what they share.

The same functions run inside the server, if one is running, or else on the database.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from sshwarma.common.times import format_iso
from sshwarma.settings import Settings
from sshwarma.world.agents import Agent
from sshwarma.world.audit import Origin, operator, record_change
from sshwarma.world.errors import Invalid, NotFound, unknown_name_error
from sshwarma.world.store import Change
from sshwarma.world.store_errors import FullDiskError
from sshwarma.world.world import World

T = TypeVar("T")
Json: TypeAlias = Any
Operation: TypeAlias = Callable[..., Awaitable[Json]]

AGENTS_HINT: Final = "List them with: sshwarma agents list"

OPERATIONS: Final[dict[str, Operation]] = {}


async def run_operation(
    world: World,
    name: str,
    args: dict[str, Any],
    *,
    settings: Settings | None = None,
    server: object | None = None,
) -> Json:
    """Run an operation by name.

    `world`, `settings` and `server`, the running one, are given to the operations that declare
    them.

    Raises:
        WorldError: with the reason, or if there is no such operation.
    """
    operation = OPERATIONS.get(name)
    if operation is None:
        raise NotFound("Unknown operation.", hint="The server may be an older version.")
    signature = inspect.signature(operation)
    services = {"world": world, "settings": settings, "server": server}
    wanted = [
        services[parameter.name]
        for parameter in signature.parameters.values()
        if parameter.kind is parameter.POSITIONAL_ONLY
    ]
    try:
        signature.bind(*wanted, **args)
    except TypeError as error:
        raise Invalid(f"{name}: {error}.", hint="The server may be another version.") from None
    return await operation(*wanted, **args)


def register_operation(run: Operation) -> Operation:
    """Register an operation under the name of its function.

    Its positional-only parameters are the services that it needs: `world`, `settings`, which are
    those of the server, or None if the caller has none, and `server`, which is None if none is
    running. The others are its arguments.
    """
    OPERATIONS[run.__name__] = run
    return run


async def audited_change(
    world: World, action: str | Sequence[str] | Callable[[T], str], work: Callable[[Change], T]
) -> T:
    """Run a change of the command line with its audit row; return its result.

    `action` is the command, as the audit shows it; or several that one change does; or what makes
    it from the result, which has ids.

    Raises:
        WorldError: with the reason, if the world does not allow it.
    """
    origin = Origin(os_user=operator.get())  # the change runs in another thread

    def run_with_audit(tx: Change) -> T:
        result = work(tx)
        commands = action(result) if callable(action) else action
        for command in [commands] if isinstance(commands, str) else commands:
            verb, _, rest = command.partition(" ")
            record_change(tx, door="cli", verb=verb, request=rest, origin=origin)
        return result

    try:
        return await world.change(run_with_audit)
    except FullDiskError as error:  # operators may know which disk, and can do something
        hint = f"Make room on the disk of {world.store.dialect.disk}."
        raise FullDiskError(error.message, hint=hint) from error


def find_agent(world: World, name: str) -> Agent | None:
    """Return the agent with that name, or None."""
    return world.agents.find_by_name(name)


def require_agent(world: World, name: str) -> Agent:
    """Return the agent with that name.

    Raises:
        NotFound: with names that are alike, if nobody has that name.
    """
    agent = find_agent(world, name)
    if agent is None:
        names = [agent.name for agent in world.agents]
        raise unknown_name_error("agent", name, known=names, hint=AGENTS_HINT)
    return agent


def format_days(days: float | str | None) -> str:
    """Return a lifetime as an option of a command, for the audit; "" without one."""
    if days is None:
        return ""
    return f" --days {days}" if isinstance(days, str) else f" --days {days:g}"


def format_time(at_ms: int | None) -> str | None:
    """Return a time as ISO 8601, or None."""
    return None if at_ms is None else format_iso(at_ms)
