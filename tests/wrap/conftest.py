"""`lua`: runs the body of a script, in a `host` with small limits that gives it all the time that a
busy machine may need; `hasty`: one that gives it little, for what ends by that; `patient`: one for
what must end by another limit, or else by time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from sshwarma.wrap.host import LuaHost, LuaLimits, LuaScript

SHORT = LuaLimits(
    seconds=0.4,
    total_seconds=2.0,
    memory=96 << 20,
    output=100_000,
    log=1_000,
    snapshot=4 << 20,
    calls=20,
    workers=2,
    waiting=3,
)

PATIENT = replace(SHORT, seconds=20.0, total_seconds=30.0, early=0.1)

UNHURRIED = replace(SHORT, seconds=20.0, total_seconds=30.0)

Run = Callable[..., Awaitable[Any]]


@pytest.fixture
async def host() -> AsyncIterator[LuaHost]:
    host = await LuaHost.start(UNHURRIED)
    yield host
    await host.close()


@pytest.fixture
async def hasty() -> AsyncIterator[LuaHost]:
    host = await LuaHost.start(SHORT)
    yield host
    await host.close()


@pytest.fixture
def lua(host: LuaHost) -> Run:
    """`await lua(body, snapshot, more scripts..., call=, log=)`: what `body` returns, given the
    snapshot as `s`."""
    return runs_on(host)


@pytest.fixture
async def patient() -> AsyncIterator[Run]:
    host = await LuaHost.start(PATIENT)
    yield runs_on(host)
    await host.close()


def runs_on(host: LuaHost) -> Run:
    async def run(body: str, snapshot: Any = None, *scripts: LuaScript, **given: Any) -> Any:
        script = LuaScript("main", f"function main(s) {body}\nend")
        return await host.run([script, *scripts], "main", snapshot or {}, **given)

    return run
