"""Fixtures: Lua hosts `host`, `hasty`, `patient`, `default_host`; `lua`.

`lua` runs the body of a script, in a `host` with small limits that gives it all the time that a
busy machine may need. `hasty` gives it little, for what ends by that; `patient` is for what must
end by another limit, or else by time; `default_host` is as the server has it.

The hosts are shared by all tests: starting one starts two processes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from sshwarma.wrap.host import LuaHost
from support.lua import PATIENT, SHORT, UNHURRIED, Run, runs_on
from wrap.setting import setting as setting


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def host() -> AsyncIterator[LuaHost]:
    host = await LuaHost.start(UNHURRIED)
    yield host
    await host.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def hasty() -> AsyncIterator[LuaHost]:
    host = await LuaHost.start(SHORT)
    yield host
    await host.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def default_host() -> AsyncIterator[LuaHost]:
    host = await LuaHost.start()
    yield host
    await host.close()


@pytest.fixture
def lua(host: LuaHost) -> Run:
    """`await lua(body, snapshot, more scripts..., call=, log=)` returns a result.

    That is what `body` returns, given the snapshot as `s`.
    """
    return runs_on(host)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def patient() -> AsyncIterator[Run]:
    host = await LuaHost.start(PATIENT)
    yield runs_on(host)
    await host.close()
