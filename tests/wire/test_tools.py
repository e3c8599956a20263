"""Tools that people make, end to end: pasted, piped, called, disabled.

People and models call them, and one that goes wrong harms nobody else. Commands are here too.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.driver import Person, Server
from support.driver.covers import covers
from support.driver.model import Asked, Model, question

DICE = """-- Rolls dice.
-- @param sides integer=6 Sides of each die
-- @param how sum|each=sum What to give
local rolled = {}
for i = 1, 2 do rolled[i] = math.random(args.sides) end
print("for " .. caller.name)
if args.how == "each" then return rolled end
return { sum = rolled[1] + rolled[2], room = room.name }
"""


@covers("tool new", "tool show", "tool list", "run")
def test_tool_made_from_a_pipe_is_available_in_the_room(
    alice: Person, bob: Person, room: str
) -> None:
    made = alice.run("tool new dice", DICE)
    assert made.status == 0, made
    assert made.out.startswith(f"Made {room}:dice (")
    his = bob.sit(room=room)
    his.enter("/run dice sides=1")
    his.wait_for(f"✓ {room}:dice")
    his.wait_for("sum: 2")
    his.wait_for(f"for {bob.name}")
    ran = alice.json("run dice sides=1 how=each")
    assert (ran["ok"], ran["structured"]) == (True, [1, 1])
    wrong = alice.run("run dice sides=many")
    assert wrong.status == 2
    assert 'sides: must be a whole number (got "many")' in wrong.err
    shown = alice.json("tool show dice")
    assert shown["content"] == DICE.removesuffix("\n")
    assert (shown["calls_total"], shown["calls_failed"]) == (2, 0)
    assert f"{room}:dice" in [tool["name"] for tool in alice.json("tool list")["tools"]]
    assert f"✓ {room}:dice" in bob.does(f"inv --room {room}")


@covers("tool new")
def test_tool_new_waits_for_a_slow_pipe(alice: Person, room: str) -> None:
    with subprocess.Popen(
        [*alice.ssh(), "tool new late"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as slow:
        with pytest.raises(subprocess.TimeoutExpired):
            slow.wait(2)  # it has no script yet, and waits for one
        out, _ = slow.communicate(b"return 'at last'", timeout=30)
    assert out.decode().startswith(f"Made {room}:late (16 bytes)")


@covers("tool new", "tool test", "tool edit", "tool remove")
def test_tool_is_pasted_tested_edited_and_removed_at_a_terminal(
    alice: Person, bob: Person, room: str
) -> None:
    hers, his = alice.sit(room=room), bob.sit(room=room)
    hers.paste("/tool new greet = -- Greets.\n-- @param who string=you\nreturn 'hi ' .. args.who")
    hers.press("enter")
    hers.wait_for(f"Made {room}:greet")
    his.wait_for(f"{alice.name} made the tool {room}:greet")
    hers.enter("/tool test greet who=there")
    hers.wait_for("seen by you alone")
    hers.wait_for("hi there")
    hers.enter("/tool edit greet")
    hers.wait_for("Editing")
    hers.wait_for("return 'hi ' .. args.who")
    hers.type(" .. '!'")
    hers.press("enter")
    hers.wait_for(f"Changed {room}:greet")
    his.enter("/run greet")
    his.wait_for("hi you!")
    assert his.count("hi there") == 0
    hers.enter("/tool new greet = return +")
    hers.wait_for("Lua syntax error: greet:1: unexpected symbol near '+'.")
    hers.enter("/tool remove greet")
    hers.wait_for(f"Removed {room}:greet.")
    assert bob.run(f"run {room}:greet").status == 1


@covers("tool describe", "tool disable", "tool enable")
def test_disabled_tool_stays_disabled_after_a_restart(
    serve: Callable[..., Server],
) -> None:
    server = serve()
    alice = server.person("alice")
    alice.does("create den")
    alice.run("tool new dice", DICE)
    alice.does("tool describe dice = Throws cubes.", "tool disable dice")
    alice.hang_up()
    assert server.stop() == 0
    server.start()
    refused = alice.run("run dice")
    assert (refused.status, "disabled" in refused.err) == (1, True)
    shown = alice.json("tool show dice")
    assert (shown["status"], shown["description"]) == ("disabled", "Throws cubes.")
    alice.does("tool enable dice")
    assert alice.json("run dice sides=1")["structured"]["sum"] == 2
    alice.hang_up()


HARM = {
    "loop": ("while true do end", "timed out after 2 s"),
    "memory": ("local t = {} while true do t[#t + 1] = ('x'):rep(1e5) .. #t end", "memory"),
    "output": ("return ('x'):rep(1e7)", "result exceeds"),
    "printing": ("while true do print(('x'):rep(1000)) end", "timed out after 2 s"),
    "itself": ("return host.call(room.name .. ':itself')", "calls nest at most"),
    "error": ("\nerror('no such luck')", "error:2: no such luck"),
}


@covers("run")
def test_harmful_tool_fails_only_its_own_call(alice: Person, bob: Person, room: str) -> None:
    for name, (source, _) in HARM.items():
        assert alice.run(f"tool new {name}", source).status == 0
    his = bob.sit(room=room)
    hers = alice.sit(room=room)
    for name, (_, words) in HARM.items():
        hers.enter(f"/run {room}:{name}")
        # The call has begun. Hers is read first: a client whose screen nobody reads sends no keys.
        hers.wait_for(f"{alice.name} → {room}:{name}")
        his.wait_for(f"{alice.name} → {room}:{name}")
        his.enter(f"still here {name}")
        his.wait_for(f"{bob.name}: still here {name}")
        hers.wait_for(f"✗ {room}:{name}")
        hers.wait_for(words)
    tools = alice.json("history --tools 100")["entries"]
    assert {entry["kind"] for entry in tools} == {"tool.call", "tool.error"}


@covers("run")
def test_run_of_a_failing_tool_exits_with_1(alice: Person, room: str) -> None:
    alice.run("tool new bad", "error('no such luck')")
    alice.run("tool new good", "return 1")
    for options in ("", " --json"):
        assert alice.run(f"run {room}:bad{options}").status == 1
        assert alice.run(f"run {room}:good{options}").status == 0


@covers("put", "help")
def test_commands_work_at_every_door(alice: Person, bob: Person, room: str) -> None:
    alice.run("put command:shout", "-- Says it loudly.\nreturn args:upper()")
    alice.run("put command:greet", "/say Hello {1}!")
    alice.does("equip room command:*")
    his = bob.sit(room=room)
    his.type("/sho")
    his.press("tab")
    his.wait_for_input(f"{room}> /shout")
    his.enter("what is this")
    his.wait_for("WHAT IS THIS")
    his.enter("/greet ann")
    his.wait_for(f"{bob.name}: Hello ann!")
    his.enter("/help shout")
    his.wait_for("/shout is a command that was made here")
    assert bob.run(f"shout one two --room {room}").out == "ONE TWO\n"
    assert bob.run(f"shout --room {room}", "from a pipe").out == "FROM A PIPE\n"
    assert bob.json(f"shout hey --room {room}")["text"] == "HEY"
    wrong = bob.run(f"greet --room {room}")
    assert (wrong.status, "needs a word after it" in wrong.err) == (2, True)
    assert bob.run("shout x --room lobby").status == 2
    plain = bob.pipe()
    out, _ = plain.communicate(f"/join {room}\n/shout in lines\n/quit\n".encode(), timeout=30)
    assert b"IN LINES" in out


@pytest.fixture
def croupier() -> Iterator[Model]:
    """A model that calls den:dice with given arguments, and says what it returned."""

    def answer(asked: Asked) -> Iterator[str | dict[str, Any]]:
        last = asked["messages"][-1]
        if last["role"] == "tool":
            yield f"It gave {last['content']}"
        else:
            arguments = json.loads(question(asked).partition("with ")[2])
            yield {"name": "den__dice", "arguments": arguments}

    made = Model(answer)
    yield made
    made.close()


@covers("tool disable")
def test_a_model_calls_a_tool_until_it_is_disabled(
    serve: Callable[..., Server], croupier: Model
) -> None:
    server = serve(models=json.dumps([croupier.settings("croupier")]))
    alice = server.person("alice")
    alice.does("create den")
    alice.run("tool new dice", DICE)
    hers = alice.sit(room="den")
    hers.enter('@croupier roll with {"sides": 1}')
    hers.wait_for("croupier → den:dice")
    hers.wait_for("croupier: It gave room: den")
    offered = {tool["function"]["name"]: tool["function"] for tool in croupier.asked[0]["tools"]}
    assert offered["den__dice"]["description"] == "Rolls dice."
    assert offered["den__dice"]["parameters"]["properties"]["sides"]["type"] == "integer"
    assert not any(name.startswith("sshwarma__tool") for name in offered)

    hers.enter('@croupier roll with {"sides": "x"}')
    hers.wait_for('croupier: It gave {"error":"sides:')

    alice.does("tool disable dice")
    hers.enter("@croupier roll with {}")
    hers.wait_for('croupier: It gave {"error":"den__dice is unavailable: disabled')
    assert "den__dice" not in {tool["function"]["name"] for tool in croupier.asked[4]["tools"]}
    kinds = [entry["kind"] for entry in alice.json("history --tools --room den")["entries"]]
    assert kinds == ["tool.call", "tool.result", "tool.call", "tool.error", "tool.call",
                     "tool.error"]  # fmt: skip
    alice.hang_up()


@covers("run")
def test_caller_of_run_reads_the_result_once_and_the_room_too(
    alice: Person, bob: Person, room: str
) -> None:
    alice.run("tool new answer", "return 'forty' .. '-two'")
    his, hers = bob.sit(room=room), alice.sit(room=room)
    for screen in (his, hers):
        screen.wait_for_prompt(room)
    his.enter("/run answer")
    his.wait_for("forty-two")
    his.enter("thanks")
    for screen in (his, hers):
        screen.wait_for(f"{bob.name}: thanks")
        assert screen.text.count(f"⚙ {bob.name} → {room}:answer") == 1
        assert screen.text.count(f"✓ {room}:answer") == 1
        assert screen.text.count("forty-two") == 1
    plain = bob.run("", f"/join {room}\n/run answer\n", "-T")
    assert plain.out.count("forty-two") == 1
    assert bob.does(f"history 20 --tools --room {room}").count("forty-two") == 2
