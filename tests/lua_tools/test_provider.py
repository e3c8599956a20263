"""Lua tools while they run: input and output, whom they act for, how they end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sshwarma.lua_tools import provider as lua_tools
from sshwarma.lua_tools.provider import render_value
from sshwarma.tools.call import Tools
from sshwarma.verbs.log_rows import RowDisplayOptions, draw_row
from sshwarma.verbs.run import RunResult
from sshwarma.verbs.views import draw_result
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.world import World
from support.people import Someone, do, everything
from support.services import services_in
from support.waiting import until


def slots_of(world: World) -> Any:
    return services_in(world).lua_tools._slots


async def make(who: Someone, name: str, source: str) -> None:
    await do(who, f"/tool new {name}", source)


async def run(who: Someone, source: str, arguments: str = "") -> RunResult:
    await make(who, "try", source)
    ran = await do(who, f"/run den:try {arguments}")
    assert isinstance(ran, RunResult)
    return ran


@pytest.mark.parametrize(
    ("source", "text", "structured"),
    [
        ("return 'hello'", "hello", None),
        ("return 7", "7", None),
        ("return 1.5", "1.5", None),
        ("return true", "true", None),
        ("", "(no result)", None),
        ("-- nothing", "(no result)", None),
        ("return { a = 1, b = 'x' }", "a: 1\nb: x", {"a": 1, "b": "x"}),
        ("return { 'x', 2 }", "x\n2", ["x", 2]),
        ("return { a = { 1 } }", '{\n  "a": [\n    1\n  ]\n}', {"a": [1]}),
        ("print('a', 1) print('b')", "a\t1\nb", None),
        ("print('a') return 'b'", "b\n\nprinted:\na", None),
        ("function run(args) return 'run' end", "run", None),
        ("local function run() return 'no' end", "(no result)", None),
        ("x = 1 return _G.x + (_G.run and 1 or 0)", "1", None),
        ("return load('x = 2 return x')() + x", "4", None),
        ("return tostring(import)", "nil", None),
    ],
)
async def test_return_value_of_a_script_is_its_result(
    alice: Someone, den: str, source: str, text: str, structured: Any
) -> None:
    ran = await run(alice, source or " ;")
    assert (ran.ok, ran.text, ran.structured) == (True, text, structured)


async def test_arguments_get_defaults_and_types(alice: Someone, den: str) -> None:
    source = """-- @param sides integer=6
-- @param label string?
-- @param who string
return { sides = args.sides, label = tostring(args.label), who = args.who,
  type = math.type(args.sides) }"""
    ran = await run(alice, source, "who=7")
    assert ran.structured == {"sides": 6, "label": "nil", "who": "7", "type": "integer"}
    with pytest.raises(Invalid, match="who: required"):
        await do(alice, "/run den:try")
    with pytest.raises(Invalid, match="faces: unknown argument"):
        await do(alice, "/run den:try who=x faces=3")


async def test_script_knows_its_caller_and_room(alice: Someone, bob: Someone, den: str) -> None:
    await do(alice, "/vibe calm")
    await make(
        alice,
        "where",
        "return { caller.name, caller.kind, room.name, room.vibe, table.concat(here, '+'),"
        " tostring(now > 1e9) }",
    )
    ran = await do(bob, "/run where")
    assert ran.structured == ["bob", "person", "den", "calm", "alice+bob", "true"]


async def test_random_numbers_differ_between_runs_and_stay_in_bounds(
    alice: Someone, den: str
) -> None:
    source = """local seen = {}
for _ = 1, 300 do
  local n = math.random(3)
  seen[n] = true
  assert(n >= 1 and n <= 3 and math.type(n) == 'integer')
  local f = math.random()
  assert(f >= 0 and f < 1)
  local low = math.random(-2, -1)
  assert(low == -2 or low == -1)
end
assert(seen[1] and seen[2] and seen[3])
assert(not pcall(math.random, 2, 1))
return math.random(1 << 50)"""
    one, two = await run(alice, source), await run(alice, source)
    assert one.ok, one.text
    assert one.text != two.text


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("error('no such luck')", "try:1: no such luck"),
        ("\n\nlocal x = nil\nreturn x.y", "try:4: attempt to index a nil value (local 'x')"),
        ("while true do end", "timed out after 1 s"),
        ("return (('a'):rep(40) .. 'b'):find(('(a*)'):rep(20) .. 'c')", "timed out after 1 s"),
        ("return ('x'):rep(1e6)", "result exceeds 131072 bytes"),
        ("local t = {} t[1] = t return t", "contains itself"),
        ("return io", "(no result)"),
        ("return os.execute('id')", "attempt to call a nil value (field 'execute')"),
        ("return host.call('sshwarma:put', { name = 'x', text = 'y' })", "is not equipped here"),
        ("return host.call('no such')", "Unknown tool no such."),
        ("host.call('sshwarma:vibe', { text = 'x' })", "sshwarma:vibe"),
        (
            "return host.call('sshwarma:journal', { n = 'many' })",
            'n: must be a whole number (got "many")',
        ),
        ("return host.call(7)", "name must be a string"),
        ("run = 5", "(no result)"),
        ("error({})", "[]"),
        ("error({ code = 7 })", '{"code":7}'),
        ("error({ print })", "a table"),
        ("return nil, 'no such build'", "no such build"),
        ("return nil, 7", "(no result)"),
        ("return coroutine.wrap(function() error('inside') end)()", "inside"),
    ],
)
async def test_script_error_names_its_line(
    bob: Someone, alice: Someone, den: str, source: str, words: str
) -> None:
    await make(alice, "try", source)
    ran = await do(bob, "/run den:try")
    assert ran.ok is (words == "(no result)")
    assert words in ran.text


@pytest.mark.usefixtures("patient_tools")
async def test_script_over_the_memory_limit_is_stopped(
    bob: Someone, alice: Someone, den: str
) -> None:
    await make(alice, "try", "local t = {} while true do t[#t + 1] = ('x'):rep(1e5) .. #t end")
    ran = await do(bob, "/run den:try")
    assert ran.ok is False
    assert "exceeded its memory limit of" in ran.text


async def test_printed_text_is_reported_with_an_error(alice: Someone, den: str) -> None:
    ran = await run(alice, "print('as far as here') error('boom')")
    assert ran.text == "try:1: boom\n\nprinted:\nas far as here"


async def test_script_calls_tools_as_its_caller_and_is_recorded(
    world: World, alice: Someone, bob: Someone, den: str
) -> None:
    await make(alice, "keep", "return host.call('sshwarma:note', { text = 'by a tool' }).text")
    assert (await do(bob, "/run keep")).text == "by a tool"
    tail = [
        row for row in await world.last_rows(den, 10) if row.kind.startswith(("tool", "journal"))
    ]
    outer, inner, note, inner_end, outer_end = tail
    assert {row.author_id for row in tail} == {bob.id}
    assert [row.meta.get("tool") for row in (outer, inner)] == ["den:keep", "sshwarma:note"]
    assert (inner.parent_row_id, inner_end.parent_row_id) == (outer.id, inner.id)
    assert (outer_end.kind, outer_end.parent_row_id) == ("tool.result", outer.id)
    assert (note.kind, note.content) == ("journal.note", "by a tool")


async def test_script_has_only_the_rights_of_its_caller(
    alice: Someone, bob: Someone, den: str
) -> None:
    await do(alice, "/equip room sshwarma:put")
    await make(alice, "build", "return host.call('sshwarma:put', { name = 'x', text = 'y' }).name")
    assert (await do(alice, "/run build")).text == "x"
    ran = await do(bob, "/run build")
    assert not ran.ok
    assert "Permission denied: needs the build right in den" in ran.text


async def test_recursive_tool_call_is_stopped(world: World, alice: Someone, den: str) -> None:
    ran = await run(alice, "return host.call('den:try')")
    assert not ran.ok
    assert ran.text == (
        "den:try → den:try → den:try → den:try → den:try: calls nest at most 4 deep."
    )
    await make(alice, "ping", "return host.call('den:pong')")
    await make(alice, "pong", "return pcall(host.call, 'den:ping') and 'back' or 'too deep'")
    assert (await do(alice, "/run ping")).text == "back"


async def test_nested_calls_are_counted_at_all_depths(alice: Someone, den: str) -> None:
    await make(alice, "leaf", "return 'x'")
    await make(alice, "branch", "for _ = 1, 30 do host.call('den:leaf') end")
    ran = await run(alice, "for _ = 1, 30 do host.call('den:branch') end")
    assert not ran.ok
    assert "One call can make at most 64 nested calls" in ran.text
    ran = await run(alice, "for _ = 1, 60 do pcall(host.call, 'sshwarma:who') end host.call('x')")
    assert "at most 32 calls in a run" in ran.text


async def test_no_state_leaks_to_the_next_run(alice: Someone, den: str) -> None:
    await run(alice, "left = 1 string.left = 1 math.random = nil getmetatable('').x = 1")
    assert (await run(alice, "return tostring(left) .. tostring(string.left)")).text == "nilnil"
    assert (await run(alice, "return math.random(1)")).text == "1"


@pytest.mark.parametrize(
    "hostile",
    [
        "'] ) os.exit() --",
        "\\x27 .. os.exit() .. \\x27",
        "]]return os",
        "{args} {1}",
        "\x1b[2J\x1b]52;c;cm0=\x07",
        "$(id)`id`",
        "nul\x00l",
        "\u202eevil",
    ],
)
async def test_hostile_arguments_stay_data(
    tools: Tools, alice: Someone, den: str, hostile: str
) -> None:
    await make(alice, "echo", "-- @param text string\nreturn { text = args.text, n = #args.text }")
    outcome = await tools.call(alice.caller, "den:echo", {"text": hostile})
    assert outcome.structured == {"text": hostile, "n": len(hostile.encode())}


async def test_agent_with_many_runs_does_not_block_others(
    alice: Someone, bob: Someone, den: str
) -> None:
    """Ten endless loops of bob's take seconds; alice is answered meanwhile.

    On a busy machine the first of them time out before the last ones wait.
    """
    await make(alice, "loop", "while true do end")
    await make(alice, "quick", "return 'here'")
    loops = [asyncio.create_task(do(bob, "/run loop")) for _ in range(10)]
    slots = slots_of(alice.world)
    await until(lambda: slots._wanted.get(bob.id, 0) >= 4)
    assert (await do(alice, "/run quick")).text == "here"
    assert (await do(alice, "/note meanwhile")).text == "meanwhile"
    assert not all(task.done() for task in loops), "she would have waited for them"
    for task in loops:
        task.cancel()
    await asyncio.gather(*loops, return_exceptions=True)


async def test_waiting_scripts_per_agent_are_limited(
    alice: Someone, den: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lua_tools, "MAX_WAITING_SCRIPTS_PER_AGENT", 1)
    await make(alice, "loop", "while true do end")
    ended = await asyncio.gather(*(do(alice, "/run loop") for _ in range(5)))
    refused = [ran for ran in ended if "Too many waiting scripts of yours (limit" in ran.text]
    assert len(refused) == 2
    slots = slots_of(alice.world)
    assert (slots._of, slots._wanted) == ({}, {})


async def test_cancelled_call_stops_its_script(alice: Someone, den: str) -> None:
    await make(alice, "loop", "while true do end")
    task = asyncio.create_task(do(alice, "/run loop"))
    slots = slots_of(alice.world)
    await until(lambda: bool(slots._wanted))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not slots._wanted
    tail = await alice.world.last_rows(den, 1)
    assert (tail[-1].kind, tail[-1].content) == ("tool.error", "The call was stopped.")


async def test_ambiguous_tool_name_is_refused(alice: Someone, den: str) -> None:
    await make(alice, "who", "return 1")
    with pytest.raises(NotFound, match=r"who is ambiguous: .*den:who"):
        await do(alice, "/run who")
    assert (await do(alice, "/run den:who")).text == "1"
    assert (await do(alice, "/run den__who")).text == "1"
    assert (await do(alice, "/run den.who")).text == "1"


def test_render_value_formats_plain_values() -> None:
    assert (
        render_value({"a": None, "b": "two\nlines"}) == '{\n  "a": null,\n  "b": "two\\nlines"\n}'
    )
    assert render_value([]) == "[]"
    assert render_value(None) == ""


async def test_test_of_a_tool_leaves_nothing_in_any_log(
    world: World, alice: Someone, den: str
) -> None:
    await do(alice, "/put me:secret = hunter2")
    await make(alice, "inner", "return host.call('sshwarma:look', { thing = 'me:secret' }).content")
    await make(alice, "outer", "return host.call('den:inner') .. host.call('den:inner')")
    await do(alice, "/equip me sshwarma:look")
    before = await everything(world)
    trial = await do(alice, "/tool test outer")
    assert (trial.ok, trial.text) == (True, "hunter2hunter2")
    assert await everything(world) == before


async def test_calls_inside_a_call_are_folded_under_it(
    world: World, alice: Someone, den: str
) -> None:
    await make(alice, "inner", "return 'from inside'")
    await make(alice, "outer", "return #(host.call('den:inner') .. host.call('den:inner'))")
    await do(alice, "/run outer")
    rows = (await world.last_rows(alice.room_id, 20))[-6:]
    assert [row.kind for row in rows] == ["tool.call"] * 2 + ["tool.result", "tool.call"] + [
        "tool.result"
    ] * 2
    shown = [draw_row(row, world.agents, None).plain() for row in rows]
    assert [bool(text) for text in shown] == [True, False, False, False, False, True]
    assert "2 calls inside: /history --tools" in shown[-1]
    full = RowDisplayOptions(tools="full")
    assert all(draw_row(row, world.agents, None, full).plain() for row in rows)
    assert "from inside" not in draw_result(await do(alice, "/history")).plain()
    assert "from inside" in draw_result(await do(alice, "/history --tools")).plain()
    nested = [row for row in rows if row.meta.get("nested")]
    assert {row.parent_row_id for row in nested if row.kind == "tool.call"} == {rows[0].id}
