"""What scripts return, or give to calls, is refused where parsing takes long."""

from __future__ import annotations

from typing import Any

import pytest

from sshwarma.wrap.host import LuaOutputTooLarge
from support.lua import Run

MANY = "local t = {} for i = 1, 25000 do t[i] = {} end"


@pytest.mark.parametrize("script", ["return t", "return host.call('x', {a = t})"])
async def test_too_many_values_of_a_script_are_refused(lua: Run, script: str) -> None:
    async def call(*_: Any) -> Any:
        raise AssertionError("it was parsed")

    with pytest.raises(LuaOutputTooLarge, match=r"The script's data has too many values"):
        await lua(f"{MANY} {script}", call=call)
    assert await lua("return 1 + 1") == 2
