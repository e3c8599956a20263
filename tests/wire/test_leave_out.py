"""Policies of what later contexts leave out, over ssh: set, shown, previewed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.driver import Person, Server
from support.driver.covers import covers
from support.driver.fixtures import answering
from support.driver.model import Model


@pytest.fixture(scope="module")
def house() -> Iterator[Server]:
    model = Model(lambda asked: iter(["Yes."]))
    with answering(model) as server:
        yield server
    model.close()


@pytest.fixture
def ann(house: Server, name: Any) -> Iterator[Person]:
    one = house.person(name("ann"))
    one.does(f"create {name('studio')}")
    yield one
    one.hang_up()


@covers("namespace set", "wrap")
def test_retention_policy_of_a_tool_trims_its_results_in_the_prompt(
    ann: Person, house: Server
) -> None:
    ann.does("tool new long = return ('x'):rep(3000)", "run long")
    room = ann.json("state list")["room"]

    def received() -> str:
        layers = {layer["name"]: layer["text"] for layer in ann.json("wrap @qwen")["layers"]}
        return str(layers.get("log", ""))

    assert received().count("x" * 600) == 1
    assert "2,400 more characters of 3,000, key stubs." in received()
    assert ': global__expand {"row"' in received()
    modes = {
        "KEEP": "x" * 3000,
        "SHORT 50": "2,950 more",
        "PARAMS_ONLY": "3,000 characters left out",
    }
    for leave, seen in modes.items():
        ann.does(f"namespace set {room}:long leave_out {leave}")
        assert seen in received()
    ann.does(f"namespace set {room}:long leave_out OMIT")
    assert "long" not in received()
    for wrong in ("MAYBE", "SHORT many", "KEEP 5", "SHORT 0"):
        assert ann.run(f"namespace set {room}:long leave_out {wrong}").status == 2
    assert "is now: SHORT 600" in ann.does(f"namespace set {room}:long leave_out -")
    assert received().count("x" * 600) == 1
    ann.does("namespace new own")
    refused = ann.run("namespace set own leave_out KEEP")
    assert "leave_out is a field of tools" in refused.err


@covers("namespace set", "examine")
def test_action_of_a_call_has_a_policy_of_its_own(ann: Person) -> None:
    script = "-- @param action string What to do\nreturn args.action:rep(200)"
    assert ann.run("tool new page", script).status == 0
    ann.does("run page action=keep", "run page action=drop")
    room = ann.json("state list")["room"]
    said = ann.does(f"namespace set {room}:page leave_out.drop PARAMS_ONLY")
    assert f"leave_out of {room}:page is now: SHORT 600; drop: PARAMS_ONLY." in said
    layers = {layer["name"]: layer["text"] for layer in ann.json("wrap @qwen")["layers"]}
    assert "(800 characters left out" in layers["log"]
    assert "keep" * 150 in layers["log"]
    shown = ann.json(f"examine {room}:page")["leave_out"]
    assert shown == {
        "policy": "SHORT 600", "per_action": {"drop": "PARAMS_ONLY"}, "decided": True,
    }  # fmt: skip
    assert "Leaves out: SHORT 600; drop: PARAMS_ONLY (set here)" in ann.does(f"examine {room}:page")
    refused = ann.run(f"namespace set {room}:page leave_out.d/p KEEP")
    assert refused.status == 2
    assert "leave_out.d/p: an action has letters" in refused.err
    assert ann.run(f"namespace set {room}:page keywords.x KEEP").status == 2
    ann.does(f"namespace set {room}:page leave_out.drop -")
    assert not ann.json(f"examine {room}:page")["leave_out"]["decided"]


@covers("wrap")
def test_preview_shows_each_row_before_and_after_it_is_compacted(ann: Person) -> None:
    modes = {"keep": "KEEP", "short": "SHORT 9", "size": "PARAMS_ONLY", "gone": "OMIT"}
    room = ann.json("state list")["room"]
    for name, mode in modes.items():
        ann.does(f"tool new {name} = return ('{name} '):rep(100)", f"run {name}")
        ann.does(f"namespace set {room}:{name} leave_out {mode}")
    shown = ann.json("wrap @qwen --compacted")
    of_results = {
        row["tool"].partition(":")[2]: row for row in shown["rows"] if row["kind"] == "tool.result"
    }
    assert {name: row["policy"] for name, row in of_results.items()} == modes
    assert {name: row["outcome"] for name, row in of_results.items()} == {
        "keep": "kept", "short": "shortened", "size": "size only", "gone": "left out",
    }  # fmt: skip
    before = {row["tokens_before"] for row in of_results.values()}
    assert min(before) > 100
    for name, row in of_results.items():
        assert (row["tokens_after"] < row["tokens_before"]) == (name != "keep")
        assert (row["tokens_after"] == 0) == (name == "gone")
    assert shown["tokens_after"] < shown["tokens_before"] <= shown["budget"]
    assert not shown["summary"]
    drawn = ann.does("wrap @qwen --compacted")
    assert "The log as qwen would read it: " in drawn
    assert any("SHORT 9" in line and "shortened" in line for line in drawn.splitlines())
    tight = ann.json("wrap @qwen --tokens 60")
    assert tight["budget"] == 60
    assert {"summarized", "left out"} & {row["outcome"] for row in tight["rows"]}
    assert "summarized" in tight["note"]
    assert tight["tokens_before"] == shown["tokens_before"], "nothing stored changes"
    assert ann.run("wrap @qwen last --compacted").status == 2
    ann.does("say and nothing else happened")
    assert ann.json("wrap @qwen --compacted")["rows"][-1]["outcome"] == "kept"


@covers("wrap", "mem session chars", "mem session lines")
def test_key_in_the_mark_of_a_cut_reads_on_in_the_row(ann: Person, house: Server) -> None:
    ann.does("tool new long = return ('first\\n'):rep(500)", "run long")
    layers = {layer["name"]: layer["text"] for layer in ann.json("wrap @qwen")["layers"]}
    mark = re.search(r"2,400 more characters of 3,000, key (stubs\.\d+): global__", layers["log"])
    assert mark is not None, layers["log"]
    assert len(ann.run(f"mem session get {mark[1]}").out) == 3_000
    ann.does("load memory room")
    layers = {layer["name"]: layer["text"] for layer in ann.json("wrap @qwen")["layers"]}
    rest = r"2,400 more characters of 3,000, key (stubs\.\d+)"
    mark = re.search(rf"{rest}: session_memory_read_char_range ({{.*?}})\)", layers["log"])
    assert mark is not None, layers["log"]
    call = json.loads(mark[2])
    assert call == {"key": mark[1], "start_char": 600, "end_char": 3_000}
    assert len(ann.run(f"mem session chars {mark[1]} 600 3000").out) == 2_400
    assert ann.run(f"mem session lines {mark[1]} 499 500").out == "first\nfirst\n"
    assert ann.json("mem session list")["keys"] == [], "nothing was copied"
    for line in (f"delete {mark[1]}", f"copy {mark[1]} x --rename", f"set {mark[1]} = forged"):
        refused = ann.run(f"mem session {line}")
        assert refused.status == 2 and "name rows of the log" in refused.err, line
    ann.does(f"mem session copy {mark[1]} mine", f"mem session concat {mark[1]} mine both")
    assert len(ann.run("mem session get both").out) == 6_000
    ann.does(f"mem project set kept --from {mark[1]}")
    assert len(ann.run("mem project get kept").out) == 3_000
    assert ann.run(f"mem session chars {mark[1]}9").status == 1
    assert ann.run(f"mem session chars {mark[1]} --room lobby").status == 1
    forged = ann.run(f"mem session set {mark[1]} = mine")
    assert forged.status == 2 and "name rows of the log" in forged.err


@covers("examine")
def test_tools_say_what_later_contexts_leave_out(ann: Person) -> None:
    shown = {
        name: ann.json(f"examine memory:project_memory_{name}")["leave_out"]["policy"]
        for name in ("get_variable", "set_variable", "list_variables", "delete_variable",
                     "search_by_regex")
    }  # fmt: skip
    assert list(shown.values()) == ["SHORT 500", "PARAMS_ONLY", "KEEP", "PARAMS_ONLY", "SHORT 500"]
