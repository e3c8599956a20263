"""`host.state`: what scripts keep between their runs."""

from __future__ import annotations

import asyncio

import pytest

from sshwarma.common.limits import (
    MAX_RUNNING_SCRIPTS_PER_AGENT,
    MAX_SCRIPT_STATE_BYTES,
    MAX_WAITING_SCRIPTS_PER_AGENT,
)
from sshwarma.verbs.tool_state import ScriptState
from sshwarma.world.world import World
from support.people import Someone, arrive, do, refused


async def make(who: Someone, name: str, text: str) -> None:
    await do(who, f"/tool new {name} =", text)
    await do(who, f"/equip room den:{name}")


async def run(who: Someone, name: str, given: str = "") -> str:
    result = await do(who, f"/run den:{name} {given}".rstrip())
    return str(result.text)


async def test_value_is_kept_for_the_next_run(alice: Someone, guest: Someone, den: str) -> None:
    """Also for guests, who may not build."""
    await do(guest, "/join den")
    await make(
        alice,
        "note",
        """-- @param what string? What to keep
        local s = host.state()
        local old = s.get("what")
        s.set("what", {args.what, n = 1})
        return old and old[1] or "nothing"
    """.replace("{args.what, n = 1}", "{args.what}"),
    )
    assert await run(guest, "note", "what=one") == "nothing"
    assert await run(alice, "note", "what=two") == "one"
    assert await run(guest, "note", "what=three") == "two"


async def test_parallel_increments_are_all_counted(world: World, alice: Someone, den: str) -> None:
    await make(alice, "count", "return host.state().add('n')")
    at_once = MAX_RUNNING_SCRIPTS_PER_AGENT + MAX_WAITING_SCRIPTS_PER_AGENT
    people = [alice]
    while len(people) * at_once < 50:
        people.append(await arrive(world, f"p{len(people)}"))
        await do(people[-1], "/join den")
    runs = [run(people[number % len(people)], "count") for number in range(50)]
    assert sorted(map(int, await asyncio.gather(*runs))) == list(range(1, 51))


async def test_swap_stores_only_over_the_value_that_is_known(alice: Someone, den: str) -> None:
    await make(
        alice,
        "turn",
        """
        local s = host.state("room")
        local first = s.swap("who", nil, "x")
        local second = s.swap("who", nil, "y")
        local third = s.swap("who", "x", "z")
        local kept = s.get("who")
        s.swap("who", "z", nil)
        return {first, second, third, kept, s.get("who") == nil}
    """,
    )
    assert await run(alice, "turn") == "true\nfalse\ntrue\nz\ntrue"


async def test_stores_of_scopes_and_scripts_are_apart(
    alice: Someone, bob: Someone, den: str
) -> None:
    await make(alice, "mine", "return host.state('agent').add('n', 2)")
    await make(alice, "yours", "return host.state('agent').add('n')")
    assert [await run(alice, "mine"), await run(alice, "mine")] == ["2", "4"]
    assert await run(bob, "mine") == "2"
    assert await run(alice, "yours") == "1"
    await make(alice, "here", "return host.state('room').add('n')")
    assert await run(alice, "here") == "1"
    await do(alice, "/create attic")
    await do(alice, "/equip me den:here")
    assert await run(alice, "here") == "1", "another room"
    await make_all(alice)


async def make_all(alice: Someone) -> None:
    await do(alice, "/join den")
    await make(
        alice,
        "all",
        """
        local s = host.state()
        for i = 1, 3 do s.set("k" .. i, i) end
        s.set("k2", nil)
        local parts = {}
        for key, value in sorted_pairs(s.all()) do parts[#parts + 1] = key .. "=" .. value end
        return table.concat(parts, " ")
    """,
    )
    assert await run(alice, "all") == "k1=1 k3=3"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("host.state('world').get('k')", "the scope must be one of tool, room, agent"),
        ("host.state().set('', 1)", "a key must be text of 1 to 255 printable characters"),
        ("host.state().set(5, 1)", "a key must be text"),
        ("host.state().set('k', print)", "host.call"),
        ("host.state().set('k', 'x'):len()", "attempt to index a nil value"),
        ("host.state().add('t', 'x')", "add takes numbers alone"),
        (f"host.state().set('k', ('x'):rep({MAX_SCRIPT_STATE_BYTES}))", "too many bytes (limit"),
        ("host.call('host state', {op = 'burn'})", "unknown operation"),
    ],
)
async def test_wrong_use_is_refused_in_words(
    alice: Someone, den: str, text: str, told: str
) -> None:
    await make(alice, "wrong", f"host.state().set('t', 'text')\n{text}\nreturn 1")
    assert told in await run(alice, "wrong")


async def test_keys_of_a_store_are_bounded(
    alice: Someone, den: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sshwarma.world.script_state.MAX_SCRIPT_STATE_KEYS", 3)
    await make(alice, "many", "for i = 1, 4 do host.state().set('k' .. i, i) end")
    assert "too many keys (limit 3)" in await run(alice, "many")


async def test_script_reads_time_and_date(alice: Someone, den: str) -> None:
    await make(
        alice,
        "clock",
        """
        local day = os.date("!%Y-%m-%d", 0)
        return day .. " " .. tostring(os.time() - now < 60) .. " " .. type(os.date("*t").hour)
    """,
    )
    assert await run(alice, "clock") == "1970-01-01 true number"


async def test_bytes_of_a_store_are_counted_as_bytes(alice: Someone, den: str) -> None:
    """Of a text SQLite counts characters, of which each may have four bytes."""
    size = MAX_SCRIPT_STATE_BYTES // 3
    text = f"for i = 1, 4 do host.state().set('k' .. i, ('\\u{{1F600}}'):rep({size // 4})) end"
    await make(alice, "wide", text)
    assert "too many bytes (limit" in await run(alice, "wide")
    kept = (await do(alice, "/tool state den:wide")).stores[0].values
    assert list(kept) == ["k1", "k2"]


async def test_builder_sees_and_deletes_what_a_script_keeps(
    alice: Someone, bob: Someone, den: str
) -> None:
    await make(
        alice,
        "tally",
        "for _, s in ipairs{'tool', 'room', 'agent'} do host.state(s).add('n') end return 1",
    )
    empty = await do(alice, "/tool state tally")
    assert empty == ScriptState("den:tally", (), 0)
    for someone in (alice, bob):
        await run(someone, "tally")
    shown = await do(alice, "/tool state tally")
    assert [(one.scope, one.owner, one.values) for one in shown.stores] == [
        ("tool", "den:tally", {"n": 2}),
        ("room", "den", {"n": 2}),
        ("agent", "alice", {"n": 1}),
    ]
    assert shown.others == 1
    assert "build right" in str(await refused(bob, "/tool state tally"))
    assert (await do(alice, "/tool state tally --clear")).text == "Deleted 4 keys of den:tally."
    assert await do(alice, "/tool state tally") == empty
