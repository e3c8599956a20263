"""Logs whose tools leave out calls: what every provider is sent stays valid."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)

from sshwarma.models.backend import StepRequest
from sshwarma.models.messages import ResponseCache, build_messages
from sshwarma.models.step_requests import to_message
from sshwarma.terminal.render import render_plain
from sshwarma.verbs.wrap_preview import describe_preview, draw_compacted_preview
from sshwarma.world import reader as world_reader
from sshwarma.world.agents import Agent, AgentDirectory
from sshwarma.world.leave_out import ToolRetention, parse_policy, read_declared
from sshwarma.world.reader import PERSON, Reader, VerbNames
from sshwarma.world.row import Row
from sshwarma.wrap import cut_marks
from sshwarma.wrap.compact import compact_log
from sshwarma.wrap.layers import ContextMessage
from sshwarma.wrap.log_preview import preview_log
from sshwarma.wrap.render_cache import RenderCache
from sshwarma.wrap.transcript import Transcript

AGENTS = AgentDirectory()
AGENTS.load([Agent("m", "helper", "model"), Agent("a", "alice")], [])
MODES = ("KEEP", "SHORT 5", "PARAMS_ONLY", "OMIT")
POLICIES = {f"t:{mode[:4].lower()}": ToolRetention.of(parse_policy(mode)) for mode in MODES}

CALLS = st.tuples(
    st.sampled_from(sorted(POLICIES)),
    st.sampled_from(("tool.result", "tool.error", "tool.timeout", "")),
    st.text(max_size=30),
)
STEPS = st.tuples(st.sampled_from(("", "I look.")), st.lists(CALLS, max_size=3))
TURNS = st.tuples(
    st.lists(STEPS, max_size=3), st.sampled_from(("", "Done.")), st.booleans(), st.booleans()
)


def make_log(turns: Sequence[Any]) -> list[Row]:
    """Rows of turns: a question, steps of text and calls, an answer."""
    rows: list[Row] = []

    def add(kind: str, content: str, author: str, **fields: Any) -> Row:
        seq = len(rows) + 1
        rows.append(Row(f"r{seq}", "lobby", seq, kind, content, author, 0, **fields))
        return rows[-1]

    for number, (steps, answer, is_asked, knows_steps) in enumerate(turns):
        turn_id = f"t{number}"
        if is_asked:
            add("chat", "@helper what is it?", "a", turn_id=turn_id)
        for step, (text, calls) in enumerate(steps):
            if text:
                add("chat", text, "m", turn_id=turn_id)
            of_step = {"step": step} if knows_steps else {}
            made = [
                (add("tool.call", "{}", "m", turn_id=turn_id, meta={"tool": tool} | of_step), *how)
                for tool, *how in calls
            ]
            for call, kind, text in made:
                if kind:
                    meta = {"tool": call.meta["tool"]}
                    add(kind, text, "m", turn_id=turn_id, parent_row_id=call.id, meta=meta)
        if answer:
            add("chat", answer, "m", turn_id=turn_id)
    return rows


def send(lines: Sequence[ContextMessage], *, plain: bool) -> list[ModelMessage]:
    """Return the messages of a request with a question at the end."""
    said = tuple(to_message(line) for line in (*lines, ContextMessage("user", "and now?")))
    request = StepRequest("lobby", "alice", "and now?", (), (), "", said)
    return build_messages(request, "", ResponseCache(), plain=plain)


def check_alternation(messages: Sequence[ModelMessage]) -> None:
    """Check that roles take turns, and that results follow their calls."""
    assert isinstance(messages[0], ModelRequest)
    assert isinstance(messages[-1], ModelRequest)
    waiting: list[str] = []
    for number, message in enumerate(messages):
        assert isinstance(message, ModelRequest if number % 2 == 0 else ModelResponse)
        assert message.parts
        if isinstance(message, ModelRequest):
            returned = [one for one in message.parts if isinstance(one, ToolReturnPart)]
            assert [one.tool_call_id for one in returned] == waiting
            assert list(message.parts[: len(returned)]) == returned, "results come first"
        else:
            waiting = [one.tool_call_id for one in message.parts if isinstance(one, ToolCallPart)]
            texts = [one.content for one in message.parts if isinstance(one, TextPart)]
            assert all(text.strip() for text in texts)
    called = [
        one.tool_call_id
        for message in messages
        for one in message.parts
        if isinstance(one, ToolCallPart)
    ]
    assert len(set(called)) == len(called)


@given(st.lists(TURNS, max_size=6), st.booleans(), st.booleans(), st.integers(50, 2_000))
def test_any_log_is_valid_for_every_provider(
    turns: list[Any], plain: bool, plain_calls: bool, budget: int
) -> None:
    rows = make_log(turns)
    stored = copy.deepcopy(rows)
    transcript = Transcript("m", AGENTS, POLICIES, plain_calls=plain_calls)
    whole = [entry.message for entry in transcript.render_rows(rows)]
    for lines in (whole, compact_log(rows, transcript, budget).lines):
        check_alternation(send(lines, plain=plain))
        assert "omit" not in repr([call for line in lines for call in line.calls])
        assert not any("t__omit" in line.text for line in lines)
    assert rows == stored, "nothing stored changes"


@given(st.lists(TURNS, max_size=5), st.integers(50, 2_000))
def test_a_remembered_row_is_the_same(turns: list[Any], budget: int) -> None:
    """Also when it was rendered in a shorter log before."""
    rows = make_log(turns)
    fresh, cache = Transcript("m", AGENTS, POLICIES), RenderCache()
    known = Transcript("m", AGENTS, POLICIES, cache=cache)
    for length in range(len(rows) + 1):
        assert known.render_rows(rows[:length]) == fresh.render_rows(rows[:length])
    cached, new = compact_log(rows, known, budget), compact_log(rows, fresh, budget)
    assert (cached.lines, cached.summary, cached.note) == (new.lines, new.summary, new.note)


def rendered(*calls: tuple[str, str, str], text: str = "") -> list[ContextMessage]:
    rows = make_log([([(text, list(calls))], "Done.", True, True)])
    return [entry.message for entry in Transcript("m", AGENTS, POLICIES).render_rows(rows)]


def test_step_whose_calls_are_all_left_out_is_gone() -> None:
    omitted = ("t:omit", "tool.result", "x")
    assert [(one.role, one.text) for one in rendered(omitted, omitted)] == [
        ("user", "<alice to helper> what is it?"), ("assistant", "Done."),
    ]  # fmt: skip
    said = [(one.role, one.text) for one in rendered(omitted, text="I look.")]
    assert said[1:] == [("assistant", "I look."), ("assistant", "Done.")]


def test_calls_beside_an_omitted_one_stay_together() -> None:
    kept = ("t:keep", "tool.result", "y" * 9)
    _, step, _ = rendered(("t:omit", "tool.result", "x"), kept, kept, text="I look.")
    assert (step.text, len(step.calls)) == ("I look.", 2)


def test_call_of_the_step_after_an_omitted_one_does_not_join_its_text() -> None:
    kept, omitted = ("t:keep", "tool.result", "y"), ("t:omit", "tool.result", "x")
    rows = make_log([([("I look.", [omitted]), ("", [kept])], "", True, True)])
    sent = [entry.message for entry in Transcript("m", AGENTS, POLICIES).render_rows(rows)]
    assert [(one.text, len(one.calls)) for one in sent[1:]] == [("I look.", 0), ("", 1)]


@pytest.mark.parametrize(
    ("tool", "kind", "content", "expected"),
    [
        ("t:keep", "tool.result", "y" * 20_000, "y" * 20_000),
        ("t:shor", "tool.result", "123456789", "12345… (4 more characters of 9 in row 3)"),
        ("t:shor", "tool.result", "12345", "12345"),
        ("t:para", "tool.result", "y" * 1_234, "(1,234 characters left out in row 3)"),
        ("t:para", "tool.error", "no such key", "Error of 11 characters: no such key"),
        (
            "t:para",
            "tool.timeout",
            "timed out\nTraceback" + "z" * 981,
            "Error of 1,000 characters: timed out… (991 more characters of 1,000 in row 3)",
        ),
    ],
)
def test_policy_decides_what_stays_of_a_result(
    tool: str, kind: str, content: str, expected: str
) -> None:
    _, step, _ = rendered((tool, kind, content))
    assert step.calls[0].result == expected
    assert step.calls[0].arguments == {}
    assert step.calls[0].is_error == (kind != "tool.result")


def test_action_of_a_call_decides_its_policy() -> None:
    policies = {"t:page": read_declared({
        "leave_out": "KEEP", "leave_out_per_action": {"drop": ["OMIT", None], "get": ["SHORT", 3]},
    })}  # fmt: skip
    rows = [
        row
        for number, action in enumerate(("get", "drop", "put"))
        for row in (
            Row(f"c{number}", "lobby", 2 * number + 1, "tool.call",
                json.dumps({"action": action}), "a", 0, meta={"tool": "t:page"}),
            Row(f"r{number}", "lobby", 2 * number + 2, "tool.result", action * 5, "a", 0,
                parent_row_id=f"c{number}", meta={"tool": "t:page"}),
        )
    ]  # fmt: skip
    for author, plain_calls in (("m", False), ("m", True), ("a", False)):
        made = Transcript("m", AGENTS, policies, plain_calls=plain_calls)
        own = [Row(**{f: getattr(row, f) for f in Row.__slots__} | {"author_id": author})
               for row in rows]  # fmt: skip
        text = repr([entry.message for entry in made.render_rows(own)])
        assert "get… (12 more characters of 15 in row 2)" in text
        assert "putputputputput" in text
        assert "drop" not in text


def test_preview_of_a_call_of_the_model_shows_what_stays_of_its_result() -> None:
    calls = [("t:para", "tool.result", "y" * 1_234), ("t:omit", "tool.result", "z")]
    rows = make_log([([("", calls)], "Done.", True, True)])
    preview = preview_log(rows, Transcript("m", AGENTS, POLICIES), 100_000)
    _, first, second, _ = preview.rows
    assert (first.outcome, first.text) == ("size only", "t__para {}")
    assert first.result == "(1,234 characters left out in row 4)"
    assert (second.outcome, second.text, second.result) == ("left out", "", "")
    drawn = draw_compacted_preview(describe_preview("m", preview), PERSON)
    shown = render_plain(drawn)
    assert "t__para {} → (1,234 characters left out in row 4)" in shown


def test_mark_of_a_cut_names_only_calls_that_the_model_is_offered() -> None:
    result = ("t:shor", "tool.result", "123456789")
    rows = make_log([([("", [result])], "Done.", True, True)])
    offers = frozenset({("global__expand", frozenset({"row", "start"}))})
    reader = Reader("model", offers)
    made = Transcript("m", AGENTS, POLICIES, reader=reader).render_rows(rows)[1].message
    call = json.dumps({"row": 3, "start": 5})
    expected = f"12345… (4 more characters of 9, key stubs.3: global__expand {call})"
    assert made.calls[0].result == expected


def test_mark_names_the_key_where_the_model_is_offered_a_reader_of_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    label = "memory:read_range"
    names = VerbNames(label, "read_range", "read_range", "", str)
    monkeypatch.setitem(world_reader._verbs, cut_marks.READ_RANGE_VERB, names)
    offered = frozenset({("memory__read_range", frozenset({"key", "start_char", "end_char"}))})
    text = cut_marks.cut_text("x" * 9_000, 600, 42, Reader("model", offered))
    call = json.dumps({"key": "stubs.42", "start_char": 600, "end_char": 4_600})
    rest = f"8,400 more characters of 9,000, key stubs.42: memory__read_range {call}"
    assert text == "x" * 600 + f"… ({rest})"
    note = cut_marks.describe_left_out("x" * 900, 42, Reader("model", offered), is_error=False)
    call = json.dumps({"key": "stubs.42", "start_char": 0, "end_char": 900})
    assert note == f"(900 characters left out, key stubs.42: memory__read_range {call})"
    short = cut_marks.describe_left_out("x" * 90, 42, Reader("model", offered), is_error=False)
    assert short == "(90 characters left out)"
