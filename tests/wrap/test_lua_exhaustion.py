"""Every script ends within its limits, by name, and the next run is answered."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from sshwarma.wrap.host import (
    LuaError,
    LuaHost,
    LuaOutOfMemory,
    LuaOutputTooLarge,
    LuaScriptError,
    LuaTimeout,
)
from support.lua import SHORT, Run, runs_on

NEVER_ENDING = {
    "a loop": "while true do end",
    "a goto": "::again:: goto again",
    "pcall in a loop": "while true do pcall(error) end",
    "a loop in pcall in a loop": "while true do pcall(function() while true do end end) end",
    "nested pcall": """
        local function deep(n) if n > 0 then return pcall(deep, n - 1) end while true do end end
        while true do deep(100) end""",
    "an xpcall handler that loops": "xpcall(error, function() while true do end end)",
    "nested xpcall": """
        local function again() return xpcall(error, again) end
        while true do xpcall(again, again) end""",
    "a coroutine that loops": "coroutine.wrap(function() while true do end end)()",
    "coroutines in coroutines": """
        local function bomb()
          while true do pcall(coroutine.wrap(bomb)) end
        end
        bomb()""",
    "coroutines without end": "while true do coroutine.wrap(function() end)() end",
    "a pattern that backtracks": 'return (("a"):rep(40) .. "b"):find(("(a*)"):rep(20) .. "c")',
    "gsub that backtracks": 'return (("a"):rep(50000)):gsub(".-.-.-.-x", "")',
    "sort by a C function": """
        local t = {}
        for i = 1, 200000 do t[i] = setmetatable({}, {__lt = function() return true end}) end
        while true do pcall(table.sort, t) end""",
    "a comparator that loops": "table.sort({3, 2, 1}, function() while true do end end)",
    "__tostring that loops": """
        error(setmetatable({}, {__tostring = function() while true do end end}))""",
    "__close that loops": """
        local x <close> = setmetatable({}, {__close = function() while true do end end})""",
    "__index that loops": """
        return setmetatable({}, {__index = function() while true do end end}).x""",
    "load in a loop": 'while true do load("return " .. ("1+"):rep(50000) .. "1") end',
    "utf8 and rep in a loop": 'while true do utf8.len(("é"):rep(1e6)) end',
    "printing": "while true do print(('x'):rep(100)) end",
    "comparing long strings": 'local a = ("a"):rep(1e7) while true do local _ = a .. "" < a end',
    "host.call refused": "while true do pcall(host.call, 'x') end",
}

TOO_MUCH = {
    "string.rep": 'return ("x"):rep(2^30)',
    "a table that grows": "local t = {} while true do t[#t + 1] = {} end",
    "a string that doubles": 'local s = "x" while true do s = s .. s end',
    "coroutines kept": """
        local t = {} while true do t[#t + 1] = coroutine.create(function() end) end""",
    "table.concat": """
        local t, s = {}, ("x"):rep(1e6) for i = 1, 1000 do t[i] = s end return table.concat(t)""",
    "a wide table": "return table.pack(table.unpack({}, 1, 900000)), ('x'):rep(1e8)",
    "closures that hold each other": """
        local f = function() end while true do local g = f f = function() return g() end end""",
    "gsub": 'return (("x"):rep(1e6)):gsub("x", ("y"):rep(1e4))',
    "string.format": 'local t = {} while true do t[#t + 1] = ("%99d"):format(#t):rep(1e3) end',
    "memory that pcall gives back": """
        local t = {}
        pcall(function() while true do t[#t + 1] = ("x"):rep(1e5) .. #t end end)
        while true do t[#t + 1] = {} end""",
}

BROKEN = {
    "recursion through C": """
        local function f(s) return s:gsub(".", f) end return f("x")""",
    "recursion through __index": """
        local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k .. 1] end
        return t.x""",
    "coroutine in coroutine": """
        local function f() return coroutine.wrap(f)() end return f()""",
    "a pattern that is too deep": 'return (("("):rep(50)):find(("("):rep(50))',
    "parentheses": 'return assert(load("return " .. ("("):rep(10000)))',
    "a globals metatable that raises": """
        setmetatable(_G, {__index = function() error("no") end, __newindex = error}) x = y""",
    "string.rep beyond any length": 'return ("x"):rep(math.maxinteger)',
    "unpack beyond the stack": "return table.unpack({}, 1, 1e8)",
    "__gc": "setmetatable({}, {__gc = function() while true do end end})",
    "an error that is a table": "error({})",
    "an error that is nil": "error(nil)",
    "an error that says itself wrong": """
        error(setmetatable({}, {__tostring = function() return 1 end}))""",
}

EITHER = {
    "deep recursion": "local function f() return 1 + f() end return f()",
    "load of a piece at a time": 'load(function() return " " end)',
}


async def _ends(lua: Run, body: str, kind: type[LuaError] | tuple[type[LuaError], ...]) -> None:
    with pytest.raises(kind) as ended:
        await lua(body)
    assert str(ended.value)
    assert await _run_in_time(lua, "return 1 + 1") == 2


async def _run_in_time(lua: Run, body: str) -> Any:
    """Run a script until it ends within its limit, which is short."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(LuaTimeout):
                return await lua(body)


@pytest.mark.parametrize("form", NEVER_ENDING)
async def test_endless_script_times_out(hasty: LuaHost, form: str) -> None:
    await _ends(runs_on(hasty), NEVER_ENDING[form], LuaTimeout)


@pytest.mark.parametrize("form", TOO_MUCH)
async def test_script_over_the_memory_limit_is_stopped(patient: Run, form: str) -> None:
    await _ends(patient, TOO_MUCH[form], LuaOutOfMemory)


@pytest.mark.parametrize("form", BROKEN)
async def test_failing_script_is_a_script_error(patient: Run, form: str) -> None:
    await _ends(patient, BROKEN[form], LuaScriptError)


@pytest.mark.parametrize("form", EITHER)
async def test_script_over_one_of_several_limits_is_stopped(patient: Run, form: str) -> None:
    await _ends(patient, EITHER[form], (LuaScriptError, LuaOutOfMemory, LuaTimeout))


async def test_timeout_of_a_loop_names_its_line(patient: Run) -> None:
    with pytest.raises(LuaTimeout, match=r"timed out after 20 s") as ended:
        await patient("local n = 0\nwhile true do\nn = n + 1\nend")
    assert ended.value.script == "main"
    assert ended.value.line in (2, 3)


async def test_output_over_the_limit_is_refused(patient: Run) -> None:
    await _ends(patient, 'return ("x"):rep(200000)', LuaOutputTooLarge)
    await _ends(
        patient, "local t = {} for i = 1, 60000 do t[i] = i end return t", LuaOutputTooLarge
    )
    deep = "local t = {} for i = 1, 40 do t = {t, t} end return t"
    await _ends(patient, deep, LuaOutputTooLarge)


async def test_log_of_a_script_is_bounded(patient: Run) -> None:
    lines: list[str] = []
    assert await patient(
        "for i = 1, 1000 do print(i, nil, {} ~= nil) end return 1", log=lines.append
    )
    assert lines[0] == "1\tnil\ttrue"
    assert lines[-1] == "(more was printed than the log holds)"
    assert sum(map(len, lines)) < SHORT.max_log_bytes + 100


@pytest.mark.process
async def test_event_loop_stays_responsive_while_scripts_loop() -> None:
    # Who waited for a script would wait for all of its time.
    host = await LuaHost.start(SHORT._replace(run_seconds=1.5, total_seconds=3.0))
    lua = runs_on(host)
    loop, lags = asyncio.get_running_loop(), []
    due = loop.time()

    def tick() -> None:
        nonlocal due
        lags.append(loop.time() - due)
        due = loop.time() + 0.002
        nonlocal handle
        handle = loop.call_at(due, tick)

    handle = loop.call_soon(tick)
    forms = ("while true do end", TOO_MUCH["a table that grows"], "while true do pcall(error) end")
    await asyncio.gather(*(lua(form) for form in forms), return_exceptions=True)
    handle.cancel()
    await host.close()
    assert len(lags) > 50
    assert max(lags) < 1.0  # 0.01 when the machine does nothing else
