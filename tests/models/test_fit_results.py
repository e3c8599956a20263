"""Requests of a turn fit the context of their model, whatever its tools return."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import AsyncGenerator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.models.backend import (
    CompletedCall,
    StepRequest,
    StreamPart,
    TextDelta,
    ToolCall,
    TurnStep,
)
from sshwarma.models.fit_results import ResultFitter
from sshwarma.models.offered_tools import write_offers
from sshwarma.models.request_size import count_request_tokens
from sshwarma.tools.provider import ToolResult
from sshwarma.world import things
from sshwarma.world.caller import Caller
from sshwarma.world.namespace_fields import set_namespace_field
from sshwarma.world.store import Change
from sshwarma.wrap.host import LuaHost
from support.house import House
from support.services import ProviderBase, make_composer

PROSE = "The server failed during the night, and two engineers read its log files. "
LOG = "2026-11-22 17:43:13.204 INFO [worker-4] id=9f3a77c1 took 4515 ms path=/api/v1/items/31 "
JSON = json.dumps({"id": 4815162342, "user": {"name": "bob", "at": "2026-11-22T17:43:13Z"}}) + ","
CHINESE = "服务器在昨天晚上出现了故障，工程师们正在检查日志文件以便找到问题的原因。"

WINDOW = 8_000


def count_tokens(request: StepRequest, characters_per_token: float) -> float:
    """Tokens of a request by o200k if tiktoken has it, else by the rate of its text."""
    texts = [request.system, write_offers(request.tools)]
    texts += [message.text for message in request.conversation]
    results = [done.text for done in request.completed_calls]
    if importlib.util.find_spec("tiktoken") is None or "TIKTOKEN_CACHE_DIR" not in os.environ:
        return sum(map(len, texts)) / 3.5 + sum(map(len, results)) / characters_per_token
    tiktoken: Any = importlib.import_module("tiktoken")
    return sum(map(len, tiktoken.get_encoding("o200k_base").encode_batch([*texts, *results])))


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "rate"), [(PROSE, 4), (LOG, 2.2), (JSON, 2.2), (CHINESE, 1.2)],
    ids=["prose", "log", "json", "chinese"],
)  # fmt: skip
async def test_every_request_of_a_turn_fits_the_context(
    house: House, text: str, rate: float
) -> None:
    class Long(ProviderBase):
        async def run(self, caller: Caller, tool: Any, arguments: dict[str, Any]) -> ToolResult:
            return ToolResult((text * 1_000)[:30_000])

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        for number in range(8 if len(request.steps) < 3 else 0):
            yield ToolCall(f"{len(request.steps)}.{number}", "sshwarma__who", {})
        yield TextDelta("I looked.")

    house.providers["internal"] = Long()
    house.tools._providers = house.providers
    house.backend.script = script
    house.backend.context_tokens, house.backend.output_tokens = WINDOW, 1_200
    question = "@qwen what failed? " + "Look everywhere. " * 200
    host = await LuaHost.start()
    house.turns._deps = replace(house.turns._deps, composer=make_composer(house.world, host))
    made = await house.says("alice", question)
    await host.close()
    assert made[-1].content == "I looked."
    assert len(house.backend.asked) == 4
    for request in house.backend.asked:
        assert count_tokens(request, rate) < WINDOW - 512
        assert "Look everywhere. " * 199 in request.conversation[-1].text
    for done in house.backend.asked[-1].completed_calls:
        shown = done.text.index("…")
        rest = f"({30_000 - shown:,} more characters of 30,000, key stubs."
        assert rest in done.text
        assert ": global__expand {" in done.text


@pytest.mark.process
@pytest.mark.parametrize(
    ("length", "count", "question"),
    [
        (98_000, 1, "and then?"), (3_800, 3, "and then?"), (98_000, 2, "and then?"),
        (98_000, 1, "and then? " + "Look at all of it. " * 100),
    ],
    ids=["one", "three short", "two long", "a long question"],
)  # fmt: skip
async def test_result_to_keep_stays_as_its_turn_was_sent_it(
    house: House, length: int, count: int, question: str
) -> None:
    """A small window was sent its start; later questions are sent as much of it."""

    class Long(ProviderBase):
        async def run(self, caller: Caller, tool: Any, arguments: dict[str, Any]) -> ToolResult:
            return ToolResult((PROSE * 2_000)[:length])

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if len(house.backend.asked) == 1:
            for number in range(count):
                yield ToolCall(str(number), "sshwarma__who", {})
        yield TextDelta("I looked.")

    def keep(tx: Change) -> None:
        who = things.find_by_qualified_name(tx.conn, "sshwarma:who")
        assert who is not None
        set_namespace_field(tx, who, "leave_out", "KEEP")

    await house.world.change(keep)
    house.providers["internal"] = Long()
    house.tools._providers = house.providers
    house.backend.script = script
    house.backend.context_tokens, house.backend.output_tokens = 16_000, 1_200
    host = await LuaHost.start()
    house.turns._deps = replace(house.turns._deps, composer=make_composer(house.world, host))
    await house.says("alice", "@qwen what failed?")
    sent = [one.text for one in house.backend.asked[1].completed_calls]
    await house.says("alice", f"@qwen {question}")
    await house.says("alice", "@qwen and after that?")
    await host.close()
    assert len(sent) == count
    for text in sent:
        assert 3_000 < len(text) < 40_000
        assert (" more characters of 98,000, key stubs." in text) == (length == 98_000)
    for request in house.backend.asked[2:]:
        done = [one for message in request.conversation for one in message.done]
        assert [one.text for one in done] == sent


def make_steps(*lengths: list[int]) -> tuple[TurnStep, ...]:
    return tuple(
        TurnStep(
            "",
            tuple(
                CompletedCall(ToolCall(str(n), "t", {}), "word " * length, is_error=False, seq=n)
                for n, length in enumerate(step)
            ),
        )
        for step in lengths
    )


def fit(fitter: ResultFitter, steps: tuple[TurnStep, ...], budget: int) -> list[str]:
    request = StepRequest("lobby", "alice", "?", (), steps)
    return [done.text for done in fitter.fit(request, budget).completed_calls]


def test_results_are_cut_rarely_and_the_mark_counts_what_the_tool_returned() -> None:
    fitter, steps, sent = ResultFitter(), make_steps(), []
    for _ in range(30):
        steps += make_steps([1_000])
        sent.append(fit(fitter, steps, 8_000))
    assert sent[6] == ["word " * 1_000] * 7  # they fit
    changes = sum(later[: len(former)] != former for former, later in pairwise(sent))
    assert 1 <= changes <= 8
    assert sent[-1][0].endswith(
        f"… ({5_000 - sent[-1][0].index('…'):,} more characters of 5,000 in row 0)"
    )


def test_most_that_a_request_had_of_each_result_is_counted() -> None:
    fitter, first, second = ResultFitter(), *make_steps([1_000], [1_000])
    second = replace(second, done=tuple(replace(one, seq=7) for one in second.done))
    assert fit(fitter, (first,), 8_000) == ["word " * 1_000]
    assert fitter.sent_characters == {}
    whole_then_cut, only_cut = fit(fitter, (first, second), 900)
    assert len(whole_then_cut) < 5_000
    assert fitter.sent_characters == {7: only_cut.index("…")}
    steps = (first, second, *make_steps([2_000]))
    assert len(fit(fitter, steps, 900)[1]) < len(only_cut)
    assert fitter.sent_characters[7] == only_cut.index("…"), "the most, not the last"


def test_remainder_is_that_of_the_row() -> None:
    done = CompletedCall(ToolCall("a", "t", {}), "x" * 60_000, False, 6, 90_000)
    (text,) = fit(ResultFitter(), (TurnStep("", (done,)),), 300)
    shown = text.index("…")
    assert f"({90_000 - shown:,} more characters of 90,000 in row 6)" in text


@given(
    st.lists(st.lists(st.integers(0, 900), min_size=1, max_size=4), min_size=1, max_size=5),
    st.integers(1_500, 9_000),
)
def test_results_fit_their_budget(lengths: list[list[int]], budget: int) -> None:
    fitter, steps = ResultFitter(), make_steps(*lengths)
    for count in range(1, len(steps) + 1):
        request = StepRequest("lobby", "alice", "?", (), steps[:count])
        fitted = fitter.fit(request, budget)
        assert count_request_tokens(fitted) <= budget
        assert [len(step.done) for step in fitted.steps] == [len(s.done) for s in request.steps]
