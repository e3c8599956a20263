"""A context that was too long: one more request with a shorter one, and a notice."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from sshwarma.models.backend import (
    BackendError,
    ReasoningDelta,
    StepRequest,
    StreamPart,
    TextDelta,
    ToolCall,
)
from sshwarma.models.request_limit import RequestLimit
from sshwarma.models.request_size import count_request_tokens
from sshwarma.tools.provider import ToolResult
from sshwarma.world import rows
from sshwarma.world.caller import Caller
from sshwarma.world.row import Row
from sshwarma.world.store import Change
from sshwarma.wrap.host import LuaHost
from sshwarma.wrap.tokens import count_answer_tokens
from support.house import House, said_by
from support.services import ProviderBase, make_composer

pytestmark = pytest.mark.process

WORDS = "the relay box hums and its fan turns while nobody looks at it "
NOTICE = "was asked again with a shortened log: the context was too long (about "


class Long(ProviderBase):
    """Tools with long results."""

    async def run(self, caller: Caller, tool: Any, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult((WORDS * 1_000)[:30_000])


@pytest.fixture
async def talkative(house: House) -> AsyncIterator[House]:
    """The house, with a long log, real contexts, and tools with long results."""

    def talk(tx: Change) -> None:
        for number in range(150):
            alice = house.world.agents.find("alice").id
            rows.append_row(tx, "lobby", "chat", f"{number} {WORDS * 5}", author_id=alice)

    await house.world.change(talk)
    host = await LuaHost.start()
    house.turns._deps = replace(house.turns._deps, composer=make_composer(house.world, host))
    house.backend.context_tokens = 64_000
    house.providers["internal"] = Long()
    yield house
    await host.close()


def fail_above(limit: int, *, steps: int = 0) -> Any:
    """A model that has a smaller window than it says, and calls tools in some steps."""

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if count_request_tokens(request) > limit:
            raise BackendError("the conversation is too long", is_context_too_long=True)
        if len(request.steps) < steps:
            yield ToolCall(f"c{len(request.steps)}", "sshwarma__who", {})
            yield ToolCall(f"d{len(request.steps)}", "sshwarma__who", {})
        else:
            yield TextDelta("It fits.")

    return script


def notices(made: list[Row]) -> list[str]:
    return [row.content for row in made if row.kind == "notice"]


def sizes(house: House) -> list[int]:
    return [count_request_tokens(request) for request in house.backend.asked]


async def test_first_request_that_is_too_long_is_shortened_once(talkative: House) -> None:
    talkative.backend.script = fail_above(10_000)
    with capture_logs() as logs:
        made = await talkative.says("alice", "@qwen what hums?")
    assert said_by(made, talkative, "qwen") == ["It fits."]
    (notice,) = notices(made)
    assert notice.startswith(NOTICE)
    first, second = sizes(talkative)
    assert first > 10_000 > second > 2_000
    assert [request.text for request in talkative.backend.asked] == ["@qwen what hums?"] * 2
    (logged,) = [entry for entry in logs if entry["event"] == "a context was too long"]
    assert (logged["agent"], logged["room"], logged["tokens"]) == ("qwen", "lobby", first)
    assert await talkative.statuses() == ["completed"]


async def test_results_of_the_turn_itself_are_shortened_too(talkative: House) -> None:
    talkative.backend.script = fail_above(18_000, steps=1)
    made = await talkative.says("alice", "@qwen look and tell")
    assert said_by(made, talkative, "qwen") == ["It fits."]
    assert len(notices(made)) == 1
    first, failed, second = talkative.backend.asked
    assert (len(first.steps), len(failed.steps), len(second.steps)) == (0, 1, 1)
    assert [one.call.id for one in second.completed_calls] == ["c0", "d0"]
    for before, after in zip(failed.completed_calls, second.completed_calls, strict=True):
        assert len(after.text) < len(before.text)
        assert "more characters of 30,000, key stubs." in after.text
        assert ": global__expand" in after.text
    stored = [row for row in made if row.kind == "tool.result"]
    assert [len(row.content) for row in stored] == [30_000] * 2, "rows keep all"


async def test_later_requests_of_the_turn_stay_short(talkative: House) -> None:
    talkative.backend.script = fail_above(12_000, steps=4)
    made = await talkative.says("alice", "@qwen look often")
    assert said_by(made, talkative, "qwen") == ["It fits."]
    assert len(notices(made)) == 1
    assert len(talkative.backend.asked) == 6


async def test_second_request_that_is_too_long_ends_the_turn(talkative: House) -> None:
    talkative.backend.script = fail_above(1)
    made = await talkative.says("alice", "@qwen what hums?")
    assert len(talkative.backend.asked) == 2
    retried, failed = notices(made)
    assert retried.startswith(NOTICE)
    assert failed == "could not answer: the conversation is too long, even shortened"
    assert await talkative.statuses() == ["failed"]
    assert made[-1].meta, "models read why there is no answer"


async def test_there_is_one_retry_in_a_turn_also_in_different_steps(talkative: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if len(talkative.backend.asked) != 2:
            raise BackendError("the conversation is too long", is_context_too_long=True)
        yield ToolCall("c", "sshwarma__who", {})

    talkative.backend.script = script
    made = await talkative.says("alice", "@qwen what hums?")
    assert len(talkative.backend.asked) == 3
    assert notices(made)[-1].endswith("the conversation is too long, even shortened")


async def test_answer_that_has_begun_is_not_asked_for_again(talkative: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield ReasoningDelta("Hm.")
        yield TextDelta("The relay")
        raise BackendError("the conversation is too long", is_context_too_long=True)

    talkative.backend.script = script
    made = await talkative.says("alice", "@qwen what hums?")
    assert len(talkative.backend.asked) == 1
    assert notices(made) == ["could not finish: the conversation is too long"]


async def test_other_errors_are_not_retried(talkative: House) -> None:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        raise BackendError("the key was rejected")
        yield

    talkative.backend.script = script
    made = await talkative.says("alice", "@qwen what hums?")
    assert len(talkative.backend.asked) == 1
    assert notices(made) == ["could not answer: the key was rejected"]


@pytest.mark.parametrize("output_tokens", [None, 100, 4_000])
@pytest.mark.parametrize("tokens", [10, 500, 1_000, 5_000, 100_000])
def test_window_of_a_limit_has_room_for_request_and_answer(
    tokens: int, output_tokens: int | None
) -> None:
    limit = RequestLimit()
    limit.tokens = tokens
    window = limit.count_window_tokens(output_tokens)
    assert abs(window - count_answer_tokens(window, output_tokens) - tokens) <= 1
