"""Turns by hand: listed, dropped, undone, asked again, branched, cloned.

Notes and skills are here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.driver import Person, Server
from support.driver.covers import covers
from support.driver.fixtures import answering
from support.driver.model import Asked, Model, question, received


def _answers(asked: Asked) -> Iterator[str | dict[str, Any]]:
    """An answer that holds its question, and does what some words in it say."""
    words = question(asked).removeprefix("@qwen ").removeprefix("@twin ")
    after_tools = any(message["role"] == "tool" for message in asked["messages"])
    if "look twice" in words and not after_tools:
        yield {"name": "sshwarma__look"}
        yield {"name": "sshwarma__who"}
        return
    yield f"answer to {words}"
    if "remember" in words:
        yield f"\n---STATE---\nGoal: {words}\n---END STATE---\n"


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    server = Model(_answers)
    yield server
    server.close()


@pytest.fixture(scope="module")
def house(model: Model) -> Iterator[Server]:
    with answering(model) as server:
        yield server


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("ann"))
    yield one
    one.hang_up()


@pytest.fixture
def other(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("other"))
    yield one
    one.hang_up()


@pytest.fixture
def studio(ann: Person, name: Callable[[str], str]) -> str:
    made = name("studio")
    ann.does(f"create {made}")
    return made


def listed(person: Person, what: str = "message list") -> list[dict[str, Any]]:
    return list(person.json(what)["turns"])


def layers(person: Person) -> dict[str, str]:
    return {layer["name"]: layer["text"] for layer in person.json("wrap @qwen")["layers"]}


@covers("context show", "context window", "message list", "wrap")
def test_context_window_counts_whole_turns(ann: Person, studio: str) -> None:
    for n in "12345":
        ann.does(f"@qwen question {n}")
    shown = ann.json("context show")
    assert (shown["window"], len(shown["turns"])) == (5, 5)
    ann.does("context window 2")
    log = layers(ann)["log"]
    assert "question 3" not in log
    for n in "45":
        assert f"to qwen> question {n}" in log
        assert f"assistant: answer to question {n}" in log
    assert "the last 2 questions are sent" in ann.does("context show")
    ann.does("context window 0")
    assert "question 1" in layers(ann)["log"]
    ann.does("context window -1", "say some talk")
    log = layers(ann)["log"]
    assert "question" not in log
    assert "some talk" in log
    assert "no turns are sent" in ann.does("context window")
    assert ann.run("context window -2").status != 0
    exact = ann.does("context window 3")
    assert "the last 3 questions are sent. Each question then drops the oldest one" in exact
    assert "a provider's cache holds less" in exact
    assert "/context window - restores the default" in exact
    assert "the last 5 to 9 questions and their turns are sent" in ann.does("context window -")
    assert "the last 5 to 9 questions and their turns are sent" in ann.does("context show")
    assert [turn["snippet"] for turn in listed(ann, "message list 3")] == [
        "@qwen question 3",
        "@qwen question 4",
        "@qwen question 5",
    ]


@covers("message show", "message drop")
def test_message_show_lists_the_rows_of_a_turn_with_roles(ann: Person, studio: str) -> None:
    ann.does("@qwen look twice")
    (turn,) = listed(ann)
    shown = ann.json(f"message show {turn['short']}")
    kinds = [row["kind"] for row in shown["rows"]]
    assert kinds[0] == kinds[-1] == "chat"
    assert sorted(kinds[1:-1]) == ["tool.call"] * 2 + ["tool.result"] * 2
    roles = [row["role"] for row in shown["rows"]]
    assert (roles[0], roles[-1], roles.count("tool")) == ("user", "assistant", 2)
    tools = {row["tool"] for row in shown["rows"][1:-1]}
    assert tools == {"sshwarma:look", "sshwarma:who"}
    page = ann.does(f"message show {turn['short']}")
    assert all(f"  tool.call {tool}, " in page for tool in tools)
    assert ann.run("message show nonsense").status != 0
    assert ann.run("message drop ffffff").status != 0


@covers("message drop", "message restore")
def test_dropped_turn_leaves_the_prompt_and_can_be_restored(
    ann: Person, studio: str, other: Person, model: Model
) -> None:
    for n in "12":
        ann.does(f"@qwen question {n}")
    first = listed(ann)[0]["short"]
    ann.does(f"message drop {first}")
    assert "question 1" not in layers(ann)["log"]
    assert listed(ann)[0]["status"] == "dropped"
    ann.does("@qwen question 3")
    assert "question 1" not in received(model.asked[-1])
    assert "question 2" in received(model.asked[-1])
    other.does(f"join {studio}")
    refused = other.run(f"message restore {first}")
    assert refused.status != 0
    assert refused.err == (
        f"Permission denied: needs the moderate right in {studio} for a question of {ann.name}."
        f" Ask {ann.name}.\n"
    )
    ann.does(f"message restore {first}")
    assert "question 1" in layers(ann)["log"]


@covers("undo", "notes show", "notes clear", "context rebuild")
def test_undo_removes_the_answer_and_its_notes(ann: Person, studio: str, other: Person) -> None:
    nothing = ann.run("undo")
    assert nothing.status != 0
    assert nothing.err == "Cannot undo: nobody has asked a question here.\n"
    ann.does("@qwen remember one", "@qwen remember two")
    assert "Goal: remember two" in ann.does("state @qwen")
    for same in ("notes", "notes show @qwen", "state", "state @qwen", "state show @qwen"):
        assert ann.does(same) == ann.does("notes @qwen")
    assert "Goal: remember two" in layers(ann)["state"]
    assert "STATE" not in ann.does("history")
    his = other.sit(room=studio)
    said = ann.does("undo")
    assert "Dropped turn" in said
    his.wait_for(f"dropped qwen's answer to {ann.name}")
    assert ann.json("state @qwen")["text"] == "Goal: remember one"
    assert "remember two" not in layers(ann)["log"]
    refused = other.run("undo")
    assert "Cannot undo: you have not asked a question here." in refused.err
    ann.does("notes clear @qwen")
    assert ann.json("notes")["text"] == ""
    ann.does("context rebuild @qwen")
    assert ann.json("state")["text"] == "Goal: remember one"
    ann.does("context window -1", "@qwen go on")
    assert ann.json("state")["text"] == "Goal: remember one"


@covers("retry", "branch list", "branch switch")
def test_retry_makes_a_branch_that_can_be_switched(ann: Person, studio: str, model: Model) -> None:
    ann.does("@qwen first", "@qwen second")
    old = listed(ann)[-1]["short"]
    assert ann.json("branch list")["forks"] == []
    ann.does("retry")
    asked = received(model.asked[-1])
    assert "first" in asked
    assert asked.count("answer to second") == 0
    forks = ann.json("branch list")["forks"]
    assert [[turn["on"] for turn in fork] for fork in forks] == [[False, True]]
    assert [turn["answer"] for turn in forks[0]] == ["answer to second"] * 2
    heading, question, *answers, _, last = ann.run("branch list").lines
    assert heading == f"Branches of {studio}:"
    assert question == f"  {ann.name}: @qwen second"
    assert [line.endswith("  answer to second") for line in answers] == [True, True]
    assert last == "/branch switch TURN goes to another."
    ann.does(f"branch switch {old}")
    (fork,) = ann.json("branch list")["forks"]
    assert [turn["on"] for turn in fork] == [True, False]
    assert ann.run(f"branch switch {old}").status != 0
    assert layers(ann)["log"].count("answer to second") == 1


@covers("retry", "branch list", "branch switch", "undo")
def test_retry_after_undo_keeps_the_old_answer(ann: Person, studio: str) -> None:
    ann.does("@qwen first", "@qwen second", "@qwen third", "undo")
    ann.does("retry")
    (fork,) = ann.json("branch list")["forks"]
    assert [(turn["snippet"], turn["on"]) for turn in fork] == [
        ("@qwen second", False),
        ("@qwen second", True),
    ]
    # What was asked again is taken back too: the way to the first answer stays.
    ann.does("undo")
    (fork,) = ann.json("branch list")["forks"]
    assert [turn["status"] for turn in fork] == ["completed", "dropped"]
    ann.does(f"branch switch {fork[0]['short']}")
    assert "answer to second" in layers(ann)["log"]


@covers("branch switch", "message drop")
def test_branch_continues_after_a_dropped_turn(ann: Person, studio: str) -> None:
    ann.does("@qwen start", "retry", "@qwen middle", "@qwen end")
    other, _, middle, _ = (turn["short"] for turn in listed(ann))
    ann.does(f"message drop {middle}", f"branch switch {other}")
    assert "answer to end" not in layers(ann)["log"]
    new = listed(ann)[1]["short"]
    ann.does(f"branch switch {new}")
    assert "answer to end" in layers(ann)["log"]
    assert "answer to middle" not in layers(ann)["log"]


@covers("branch switch", "message restore", "notes clear")
def test_notes_of_a_model_follow_its_active_answers(ann: Person, studio: str) -> None:
    ann.does("@qwen remember this")
    ann.does("retry", "state clear @qwen")
    first, second = (turn["short"] for turn in listed(ann))
    ann.does(f"branch switch {first}")
    assert ann.json("state @qwen")["text"] == "Goal: remember this"
    ann.does("@qwen remember that")
    last = listed(ann)[-1]["short"]
    assert "notes" in ann.does(f"message drop {last}")
    assert ann.json("state @qwen")["text"] == "Goal: remember this"
    assert "notes" in ann.does(f"message restore {last}")
    assert ann.json("state @qwen")["text"] == "Goal: remember that"
    assert "notes" not in ann.does(f"message drop {first}")
    assert ann.json("state @qwen")["text"] == "Goal: remember that"
    ann.does(f"branch switch {second}")
    assert ann.json("state @qwen")["text"] == "Goal: remember this"


@covers("undo", "retry")
def test_undo_and_retry_say_what_is_left_to_undo(
    ann: Person, studio: str, house: Server, model: Model
) -> None:
    refused = ann.run("retry @qwen")
    assert "Cannot ask again: you have not asked qwen a question here." in refused.err
    house.owner.does(f"model add twin compatible scripted --url {model.url}")
    ann.does("@qwen @twin hello")
    assert "The question stays, with what qwen answered." in ann.does("undo")
    assert "The question stays" not in ann.does("undo")
    assert "is dropped already" in ann.run("undo").err


@covers("history show", "undo")
def test_history_marks_undone_answers(ann: Person, studio: str) -> None:
    screen = ann.sit(room=studio)
    ann.does("@qwen say **this**", "@qwen say **that**", "undo")
    screen.wait_for("answer to say that")
    screen.enter("/history 20")
    screen.wait_for(re.compile(r"^\d\d:\d\d \d+ qwen: answer to say this$", re.M))
    screen.wait_for(re.compile(r"^\d\d:\d\d \d+ dropped qwen: answer to say \*\*that\*\*$", re.M))
    assert "qwen: answer to say **this**" in ann.does("history 20")
    assert ann.does("history show 20") == ann.does("history 20")
    entries = ann.json("history 20")["entries"]
    assert {entry["text"] for entry in entries if entry["dropped"]} == {
        "@qwen say **that**",
        "answer to say **that**",
    }
    screen.enter("/set markdown off")
    screen.enter("/history 20")
    screen.wait_for(re.compile(r"^\d\d:\d\d \d+ qwen: answer to say \*\*this\*\*$", re.M))


@covers("clone")
def test_undo_in_a_clone_keeps_the_original(ann: Person, studio: str) -> None:
    ann.does("@qwen remember this", "@qwen look twice", "context window 3")
    copy = f"{studio}-copy"
    ann.does(f"clone {studio} {copy}")
    assert ann.json("state @qwen")["text"] == "Goal: remember this"
    assert [turn["snippet"] for turn in listed(ann)] == ["@qwen remember this", "@qwen look twice"]
    ann.does("undo", "undo")
    assert "log" not in layers(ann)
    assert ann.json("state @qwen")["text"] == ""
    ann.does(f"join {studio}")
    assert "answer to look twice" in layers(ann)["log"]
    assert ann.json("state @qwen")["text"] == "Goal: remember this"
    assert {turn["status"] for turn in listed(ann)} == {"completed"}


@covers(
    "skill new", "skill activate", "skill edit", "skill rename", "skill show", "skill deactivate",
    "skill remove", "skill list",
)  # fmt: skip
def test_active_skills_are_in_the_prompt(
    ann: Person, studio: str, other: Person, model: Model, name: Callable[[str], str]
) -> None:
    first, second = name("terse"), name("bugs")
    ann.does(f"skill new {first} --description 'short answers' = Answer in one word.")
    ann.does(f"skill new {second} = Look for bugs first.")
    assert ann.run(f"skill new {first} = again").status != 0
    edited = ann.json(f"skill edit {first}")
    assert edited["line"] == f"/skill edit {first} = Answer in one word."
    assert ann.run("skill activate nothing").status != 0
    ann.does(f"skill activate {first}", f"skill activate {second} --priority -1")
    equipped = layers(ann)["equipped"]
    assert equipped.index("Look for bugs") < equipped.index("one word")
    ann.does(f"skill edit {first} = Answer in two words.")
    ann.does(f"skill rename {first} {first}-now")
    ann.does("@qwen hi")
    assert "two words" in received(model.asked[-1])
    shown = ann.json(f"skill show {first}-now")
    assert (shown["active"], shown["activations"]) == (["room"], 1)
    assert ann.json(f"skill show {shown['id']}")["name"] == f"{first}-now"
    ann.does(f"skill deactivate {first}-now", f"skill deactivate {second}")
    assert "equipped" not in layers(ann)
    refused = other.run(f"skill remove {second}")
    assert f"to change the skill {second}. Ask {ann.name}" in " ".join(refused.err.split())
    ann.does(f"skill remove {second}")
    assert second not in ann.does("skill list")


def test_model_activates_a_skill_for_itself(
    ann: Person,
    studio: str,
    model: Model,
    name: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = name("calm")
    ann.does(f"skill new {mark} = Stay calm.", "equip room sshwarma:skill_activate")

    def answers(asked: Asked) -> Iterator[str | dict[str, Any]]:
        if any(message["role"] == "tool" for message in asked["messages"]):
            yield "done"
        else:
            yield {"name": "sshwarma__skill_activate", "arguments": {"name": mark}}

    monkeypatch.setattr(model, "answer", answers)
    ann.does("@qwen calm down")
    assert "Stay calm." in layers(ann)["equipped"]


@covers("expand")
def test_expand_continues_where_the_text_was_cut(ann: Person, studio: str) -> None:
    text = "".join(f"{n:05}" for n in range(5_000))
    script = "local t = {} for n = 0, 4999 do t[#t + 1] = string.format('%05d', n) end"
    ann.does(f"tool new long = {script} return table.concat(t)", f"run {studio}:long")
    seq = ann.json("history 1 --tools")["entries"][-1]["seq"]
    first = ann.json(f"expand {seq}")
    assert first["left"] > 0
    second = ann.json(f"expand {seq} --start {first['next']}")
    refusal = ann.run(f"expand {seq} --start 25000")
    assert refusal.err == (
        f"--start must be at most 24999 (row {seq} has 25000 characters; got 25000).\n"
    )
    assert first["text"] + second["text"] == text


@covers("clone", "undo", "retry", "branch switch")
def test_turn_verbs_are_refused_without_a_turn(
    serve: Callable[..., Server],
) -> None:
    server = serve()
    alone = server.person("alone")
    for command in ("undo", "retry", "branch switch ffffff", "clone nowhere", "wrap"):
        assert alone.run(command).status != 0, command
    assert alone.does("context show").startswith(
        "Window of lobby: 5, the last 5 to 9 questions and"
    )
    assert alone.run("wrap @guide").err == (
        "guide is not a language model: it reads only the question.\n"
    )
    alone.hang_up()
