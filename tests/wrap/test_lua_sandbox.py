"""Scripts reach only what they are given, and nothing stays for the next run."""

from __future__ import annotations

import pytest

from sshwarma.wrap.host import LuaHost, LuaScript, LuaScriptError
from support.lua import Run

GONE = (
    *(
        "python",
        "io",
        "os.execute",
        "os.getenv",
        "os.exit",
        "os.remove",
        "os.tmpname",
        "package",
        "debug",
        "require",
        "dofile",
        "loadfile",
        "warn",
    ),
    *("collectgarbage", "string.dump", "math.randomseed", "loadstring", "setfenv", "newproxy"),
)


@pytest.mark.parametrize("name", GONE)
async def test_unsafe_global_is_absent(lua: Run, name: str) -> None:
    assert await lua(f"return {name} == nil")


async def test_every_reachable_value_is_plain_lua(lua: Run) -> None:
    """Walks all tables, metatables and strings from the globals and the snapshot."""
    kinds = await lua(
        """
        local seen, kinds = {}, {}
        local function walk(value, depth)
          kinds[type(value)] = true
          local meta = getmetatable(value)
          if type(meta) == "table" then walk(meta, depth + 1) end
          if type(value) ~= "table" or seen[value] then return end
          seen[value] = true
          for k, v in next, value do walk(k, depth + 1) walk(v, depth + 1) end
        end
        walk(_G, 0) walk(s, 0) walk("", 0) walk(host.call("x"), 0) walk(coroutine.running(), 0)
        local list = {}
        for kind in sorted_pairs(kinds) do list[#list + 1] = kind end
        return list""",
        {"a": [1, 2.5, None, {}, "x", True]},
        call=_echo,
    )
    assert "userdata" not in kinds
    assert set(kinds) <= {"boolean", "function", "nil", "number", "string", "table", "thread"}


async def _echo(name: str, arguments: dict[str, object]) -> object:
    return {"name": name, "arguments": arguments, "list": [None, {}, []]}


@pytest.mark.parametrize(
    "body",
    [
        'return load("\\27Lua") == nil',
        'return load("\\27Lua", "x", "b") == nil',
        'return load(function() return nil end, "x", "bt") ~= nil',
        'return load("return python or os.execute or io or debug")() == nil',
        'return load("return _G")() == _G',
        'return load("return x", "c", "t", {x = 5})() == 5',
        'return select(2, load("return " .. ("("):rep(300))):find("^too many brackets") == 1',
        'return not pcall(function() return ("x").dump end) or ("x").dump == nil',
        'return getmetatable("") == false',
        'return not pcall(setmetatable, "", {})',
        "return coroutine.wrap(function() return _G end)() == _G",
        "return not pcall(setmetatable, null, {})",
        "return not pcall(setmetatable, {}, {__gc = false})",
        "local ok, e = pcall(host.call, 'x') return type(e) == 'string'",
        "return select('#', pcall(string.rep)) == 2",
    ],
)
async def test_sandbox_escapes_are_closed(lua: Run, body: str) -> None:
    assert await lua(body) is True


async def test_no_state_leaks_to_the_next_run(host: LuaHost, lua: Run) -> None:
    await lua(
        """
        leak = 1
        _G.pairs = nil
        string.upper = function() return "owned" end
        table.concat, math.floor, coroutine.wrap = nil, nil, nil
        pcall(function() getmetatable("").__index = function() return "owned" end end)
        pcall(function() getmetatable("").__index.upper = function() return "owned" end end)
        setmetatable(_G, {__index = function() return "owned" end})
        host.call, null.x = nil, nil""".replace(", null.x = nil, nil", " = nil")
    )
    assert await lua('return {leak == nil, ("a"):upper(), string.upper("a"), pairs ~= nil}') == [
        True,
        "A",
        "A",
        True,
    ]


async def test_script_cannot_change_another_script(lua: Run) -> None:
    rogue = LuaScript(
        "rogue", "x = 1 string.upper = nil table.concat = nil host.call = nil return {}"
    )
    assert await lua(
        'import("rogue") return {x == nil, string.upper("a"), table.concat({1}), host.call ~= nil}',
        {},
        rogue,
    ) == [True, "A", "1", True]


async def test_import_finds_only_the_given_scripts(lua: Run) -> None:
    library = LuaScript("lib/text", "local M = {} function M.twice(x) return x .. x end return M")
    assert await lua('return import("lib/text").twice("a")', {}, library) == "aa"
    assert await lua('return import("lib/text") == import("lib/text")', {}, library) is True
    for name in ("os", "/etc/passwd", "lib"):
        with pytest.raises(LuaScriptError, match="unknown script"):
            await lua(f'return import("{name}")', {}, library)
    circle = LuaScript("circle", 'return import("circle")')
    with pytest.raises(LuaScriptError, match="is circular"):
        await lua('return import("circle")', {}, circle)


async def test_error_names_the_script_and_the_line(lua: Run, host: LuaHost) -> None:
    library = LuaScript("lib", "return function(x)\n\n  return x.y.z\nend")
    with pytest.raises(LuaScriptError) as failed:
        await lua('return import("lib")({})', {}, library)
    assert (failed.value.script, failed.value.line) == ("lib", 3)
    assert str(failed.value) == "lib:3: attempt to index a nil value (field 'y')"
    with pytest.raises(LuaScriptError, match=r"^main:2: unexpected symbol near '='$"):
        await lua("\n= 1")
    with pytest.raises(LuaScriptError, match=r"^main:2: plain$"):
        await lua("\nerror('plain')")
    with pytest.raises(LuaScriptError) as failed:
        await lua("\nerror('no place', 0)")
    assert (failed.value.message, failed.value.line) == ("no place", 2)
    name = "hook:wrap:" + "x" * 80
    with pytest.raises(LuaScriptError) as failed:
        await host.run([LuaScript(name, "\nerror('long')")], "main", {})
    assert (failed.value.script, failed.value.line, failed.value.message) == (name, 2, "long")


async def test_entry_point_is_a_global_or_the_returned_value(host: LuaHost) -> None:
    for source in (
        "function wrap(s) return s.a end",
        "return { wrap = function(s) return s.a end }",
        "return function(s) return s.a end",
    ):
        assert await host.run([LuaScript("wrap.lua", source)], "wrap", {"a": 7}) == 7
    with pytest.raises(LuaScriptError, match=r"wrap\.lua does not define a function wrap"):
        await host.run([LuaScript("wrap.lua", "")], "wrap", {})


async def test_random_numbers_are_deterministic(lua: Run) -> None:
    body = "return {math.random(1000), math.random(1000), math.random()}"
    assert await lua(body) == await lua(body)
