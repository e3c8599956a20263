"""A snapshot goes in, a value comes out: the same, or a clear refusal."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from sshwarma.wrap.host import LuaInvalidInput, LuaScriptError
from support.lua import Run


@pytest.mark.parametrize(
    "value",
    [
        0,
        -(2**63),
        2**63 - 1,
        1.0,
        -0.5,
        0.1,
        1e300,
        5e-324,
        True,
        False,
        "",
        "plain",
        'é漢😀\x00\x1b\x7f"\\\n\u2028',
        [],
        {},
        [1, None, 3],
        [None, None],
        [[], {}, [[]], {"a": {}}],
        {"a": [1, {"b": [True, "x", 2.5]}], "1": "a string key"},
        {"rows": {"seq": list(range(500)), "text": ["é"] * 500, "parent": [None] * 500}},
    ],
)
async def test_values_round_trip(lua: Run, value: Any) -> None:
    back = await lua("return s.value", {"value": value})
    assert back == value
    assert type(back) is type(value)


async def test_missing_values_become_nil_or_null(lua: Run) -> None:
    assert await lua("return s.nothing == nil", {"nothing": None}) is True
    assert await lua("return nil") is None
    assert await lua("return {a = null, b = 1}") == {"a": None, "b": 1}
    assert await lua("return {#s.l, s.l[2] == null, tostring(s.l[2])}", {"l": [1, None, 3]}) == [
        3,
        True,
        "null",
    ]


async def test_keys_are_sorted(lua: Run) -> None:
    names = [f"k{n:03}" for n in range(100)]
    back = await lua(
        "local t = {} for i = #s.names, 1, -1 do t[s.names[i]] = i end return t", {"names": names}
    )
    assert list(back) == names
    assert await lua(
        """
        local order = {}
        for k, v in sorted_pairs({b = 1, a = 2, [3] = 3, [1.5] = 4, [true] = 5}) do
          order[#order + 1] = tostring(k)
        end
        return order"""
    ) == ["1.5", "3", "a", "b", "true"]


async def test_invalid_utf8_is_repaired(lua: Run) -> None:
    assert await lua("return s.t:sub(1, 3)", {"t": "aéé"}) == "aé"
    assert await lua("return s.t:sub(1, 2)", {"t": "aéé"}) == "a\ufffd"
    assert await lua(r"return {'\xff\xfe', ('\x80'):rep(3), '\xed\xa0\x80x'}") == [
        "\ufffd\ufffd",
        "\ufffd",
        "\ufffdx",
    ]
    assert await lua("return #s.t", {"t": "a\ud800"}) == 2


async def test_integers_too_large_for_lua_become_floats(lua: Run) -> None:
    assert await lua("return s.n", {"n": 2**70}) == float(2**70)
    assert await lua("return s.n > 1e308", {"n": 10**400}) is True


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return print", "the result is a function"),
        ("return {a = {b = coroutine.create(print)}}", r"the result\.a\.b is a thread"),
        ("local t = {} t.x = {t} return t", r"the result\.x\[1\] contains itself"),
        ("return {1, 2, [4] = 4}", "is a list with holes"),
        ("return {1, a = 2}", "is a list that also has string keys, such as a"),
        ("return {[1.5] = 1}", "has a key that is neither a string nor a position: number"),
        ("return {[true] = 1}", "neither a string nor a position: boolean"),
        ("return {[{}] = 1}", "neither a string nor a position: table"),
        ("return {0/0}", r"the result\[1\] is -?nan"),
        ("return {a = 1/0}", r"the result\.a is inf"),
        ("local t = {} for i = 1, 100 do t = {t} end return t", "is nested deeper than 64"),
    ],
)
async def test_result_that_is_not_data_is_refused(lua: Run, body: str, words: str) -> None:
    with pytest.raises(LuaScriptError, match=words):
        await lua(body)


async def test_metatables_of_a_result_are_ignored(lua: Run) -> None:
    assert await lua(
        "return setmetatable({1}, {__index = error, __len = error, __pairs = error})"
    ) == [1]


async def test_input_that_is_not_data_is_refused(lua: Run) -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    for value in ({1, 2}, b"bytes", object(), cycle):
        with pytest.raises(LuaInvalidInput, match="The input is not data"):
            await lua("return 1", {"value": value})
    with pytest.raises(LuaInvalidInput, match=r"The input has 5\.0 MiB; the limit is 4\.0 MiB"):
        await lua("return 1", {"value": "x" * (5 << 20)})
    assert await lua("return s.a.b", MappingProxyType({"a": MappingProxyType({"b": 1})})) == 1
