"""The pydantic_ai backend with a played model: requests, answers, retries, load."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from sshwarma.common.limits import MAX_RETRY_AFTER_SECONDS
from sshwarma.models import model_client, providers
from sshwarma.models.backend import (
    BackendError,
    CompletedCall,
    Message,
    OfferedTool,
    RetryDelay,
    StepRequest,
    StreamPart,
    TextDelta,
    ToolCall,
    TurnStep,
)
from sshwarma.models.providers import LoadedModel, load_model
from sshwarma.models.pydantic_ai_backend import (
    PydanticAIBackend,
    _read_usage,
    collapse_repeated_name,
)
from sshwarma.models.retry import MAX_RETRY_JITTER, ModelFailure
from sshwarma.models.secrets import Secret
from sshwarma.settings import ModelSettings
from sshwarma.world.usage import TokenUsage

KEY = "sk-a-key-that-nobody-may-see-0123456789"
LOOK = OfferedTool("look", "world:look", "Look at it.", {"type": "object", "properties": {}})


def settings(**more: Any) -> ModelSettings:
    return ModelSettings(**{"name": "qwen", "kind": "openai", "model": "gpt-4o"} | more)


def request(*steps: TurnStep, said: tuple[Message, ...] = (), **more: Any) -> StepRequest:
    return StepRequest("lobby", "alice", "hello", (LOOK,), steps, conversation=said, **more)


class Played:
    """A backend with pydantic-ai's own double behind it, which plays a script."""

    def __init__(self) -> None:
        self.script: Callable[..., AsyncIterator[Any]] = nothing
        self.asked: list[Any] = []
        self.waits: list[float] = []
        self.backend = PydanticAIBackend(settings(), {})

    async def answers(self, asked: StepRequest) -> list[StreamPart]:
        async with asyncio.timeout(30):
            return [part async for part in self.backend.stream(asked)]


async def nothing(messages: Any, info: Any) -> AsyncIterator[Any]:
    return
    yield


@pytest.fixture
async def played(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Played]:
    from pydantic_ai.models import create_async_httpx2_client
    from pydantic_ai.models.function import FunctionModel

    made = Played()
    http = create_async_httpx2_client()
    right_wait = ModelFailure.retry_delay

    def script(messages: Any, info: Any) -> AsyncIterator[Any]:
        made.asked.append(messages)
        return made.script(messages, info)

    def loaded(settings: ModelSettings, environ: Any) -> LoadedModel:
        model = FunctionModel(stream_function=script)
        return LoadedModel(model, {}, Secret(KEY), http, reports_finish_reason=False)

    def wait(fault: ModelFailure, tried: int) -> float:
        made.waits.append(right_wait(fault, tried))
        return 0

    monkeypatch.setattr(model_client, "load_model", loaded)
    monkeypatch.setattr(ModelFailure, "retry_delay", wait)
    yield made
    await made.backend.close()


def tool_call(name: str, arguments: str, ident: str) -> dict[int, Any]:
    from pydantic_ai.models.function import DeltaToolCall

    return {0: DeltaToolCall(name=name, json_args=arguments, tool_call_id=ident)}


async def test_stream_yields_text_calls_and_usage(played: Played) -> None:
    async def script(messages: Any, info: Any) -> AsyncIterator[Any]:
        yield "Let me "
        yield "look."
        yield tool_call("look", '{"at": ', "a")
        yield tool_call("", '"door"}', "a")

    async def said(messages: Any, info: Any) -> AsyncIterator[Any]:
        yield "A door."

    played.script = script
    *texts, call, usage = await played.answers(request())
    assert texts == [TextDelta("Let me "), TextDelta("look.")]
    assert isinstance(call, ToolCall)
    assert call.arguments == {"at": "door"}
    assert isinstance(usage, TokenUsage)
    assert usage.cost is None


async def test_request_contains_instructions_history_and_steps(
    played: Played,
) -> None:
    async def script(messages: Any, info: Any) -> AsyncIterator[Any]:
        assert [tool.name for tool in info.function_tools] == ["look"]
        assert info.function_tools[0].strict is False
        yield "done"

    said = (
        Message("assistant", "I was here first"),
        Message("user", "bob: hi"),
        Message("user", "  "),
        Message("user", "alice: look"),
    )
    done = (
        CompletedCall(ToolCall("id-1", "look", {"at": "door"}), "red", False),
        CompletedCall(ToolCall("id-2", "look", {}), "no such thing", True),
    )
    played.script = script
    await played.answers(request(TurnStep("Let me.", done), said=said, system="You are qwen."))
    (sent,) = played.asked
    assert [type(message).__name__ for message in sent] == [
        "ModelRequest",
        "ModelResponse",
        "ModelRequest",
        "ModelResponse",
        "ModelRequest",
    ]
    assert {m.instructions for m in sent if hasattr(m, "instructions")} == {"You are qwen."}
    assert [part.content for part in sent[2].parts] == ["bob: hi", "alice: look"]
    text, first, second = sent[3].parts
    assert text.content == "Let me."
    assert [(p.tool_call_id, p.args) for p in (first, second)] == [
        ("id-1", {"at": "door"}),
        ("id-2", {}),
    ]
    results = [(p.tool_call_id, p.content, p.outcome) for p in sent[4].parts]
    assert results == [("id-1", "red", "success"), ("id-2", "no such thing", "failed")]


async def test_request_without_context_uses_question_and_model_prompt(
    played: Played,
) -> None:
    async def script(messages: Any, info: Any) -> AsyncIterator[Any]:
        yield "done"

    played.script = script
    played.backend = PydanticAIBackend(settings(prompt="Be brief."), {})
    await played.answers(request())
    (message,) = played.asked[0]
    assert message.parts[0].content == "alice: hello"
    assert message.instructions == "Be brief."


async def test_next_turn_shares_the_prefix_of_the_last_request(played: Played) -> None:
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    async def script(messages: Any, info: Any) -> AsyncIterator[Any]:
        yield "done"

    played.script = script
    said = (Message("user", "alice: one"), Message("assistant", "two"))
    await played.answers(request(said=said))
    await played.answers(request(said=(*said, Message("user", "bob: three"))))
    first, second = ([_parts(m) for m in sent] for sent in played.asked)
    assert second[: len(first)] == first
    assert ModelMessagesTypeAdapter.dump_json(played.asked[0])


def _parts(message: Any) -> list[tuple[str, str]]:
    return [(part.part_kind, part.content) for part in message.parts]


async def test_empty_answer_is_retried_once(played: Played) -> None:
    async def script(messages: Any, info: Any) -> AsyncIterator[Any]:
        yield "" if len(played.asked) == 1 else "here"

    played.script = script
    parts = await played.answers(request())
    assert parts[:2] == [RetryDelay(0, "no answer"), TextDelta("here")]
    played.asked.clear()

    async def blank(messages: Any, info: Any) -> AsyncIterator[Any]:
        yield " \n"

    played.script = blank
    with pytest.raises(BackendError, match="gave no answer"):
        await played.answers(request())
    assert len(played.asked) == 2


def refusal(status: int, **headers: str) -> Exception:
    from pydantic_ai import exceptions

    kinds: dict[int, Any] = {
        429: exceptions.ModelRateLimitError,
        500: exceptions.ModelServerError,
        400: exceptions.ModelRequestRejectedError,
    }
    return exceptions.ModelHTTPError.for_category(
        kinds[status],
        status_code=status,
        model_name="m",
        body={"error": {"message": f"the key {KEY} is\n{'very ' * 100}bad"}},
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


@pytest.mark.parametrize(
    ("error", "tries", "least", "most"),
    [
        (refusal(429), 3, 0.25, 1.5),
        (refusal(500), 3, 0.25, 1.5),
        (refusal(429, retry_after="7"), 3, 7, 7 * MAX_RETRY_JITTER),
        (refusal(429, retry_after_ms="2500"), 3, 2.5, 2.5 * MAX_RETRY_JITTER),
        (
            refusal(429, retry_after=f"{MAX_RETRY_AFTER_SECONDS:.0f}"),
            3,
            MAX_RETRY_AFTER_SECONDS,
            MAX_RETRY_AFTER_SECONDS,
        ),
        (refusal(429, retry_after=f"{MAX_RETRY_AFTER_SECONDS + 1:.0f}"), 1, 0, 0),
        (refusal(500, x_should_retry="false"), 1, 0, 0),
        (refusal(400), 1, 0, 0),
    ],
)
async def test_retry_delay_follows_the_server_or_backs_off(
    played: Played, error: Exception, tries: int, least: float, most: float
) -> None:
    async def script(messages: Any, info: Any) -> AsyncIterator[Any]:
        raise error
        yield

    played.script = script
    with pytest.raises(BackendError) as raised:
        await played.answers(request())
    assert len(played.asked) == tries
    assert len(played.waits) == tries - 1
    assert all(least <= wait <= most for wait in played.waits)
    assert KEY not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500
    assert raised.value.__context__ is None
    assert raised.value.__cause__ is None


async def test_no_retry_after_text_was_streamed(played: Played) -> None:
    async def script(messages: Any, info: Any) -> AsyncIterator[Any]:
        yield "I think"
        raise refusal(500)

    played.script = script
    parts: list[StreamPart] = []
    with pytest.raises(BackendError, match=r"failed \("):
        async for part in played.backend.stream(request()):
            parts.append(part)
    assert parts == [TextDelta("I think")]
    assert len(played.asked) == 1


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("look", "look"),
        ("looklook", "look"),
        ("looklooklook", "look"),
        ("looksay", "looksay"),
        ("loo", "loo"),
        ("", ""),
        ("gogo", "gogo"),
    ],
)
def test_collapse_repeated_name_collapses_whole_copies_only(name: str, meant: str) -> None:
    assert collapse_repeated_name(name, {"look", "say", "go", "gogo"}) == meant


# Loading.


@pytest.mark.process
def test_model_libraries_load_at_the_first_request() -> None:
    code = (
        "import sys, sshwarma.models.pydantic_ai_backend, sshwarma.models.discover\n"
        "late = {'pydantic_ai', 'openai', 'anthropic', 'httpx2', 'genai_prices'}\n"
        "assert not late & set(sys.modules), late & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)


def test_missing_provider_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "_is_installed", lambda module: False)
    with pytest.raises(BackendError, match="pip install"):
        load_model(settings(kind="google", model="gemini-3.8-flash"), {"GEMINI_API_KEY": KEY})


async def test_concurrent_first_requests_load_once(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []

    def loaded(settings: ModelSettings, environ: Any) -> Any:
        times.append(1)
        time.sleep(0.02)  # in a thread: what importing does
        return object()

    monkeypatch.setattr(model_client, "load_model", loaded)
    backend = PydanticAIBackend(settings(), {})
    first, second = await asyncio.gather(backend.ready(), backend.ready())
    assert first is second
    assert times == [1]


@pytest.mark.process
def test_model_libraries_load_in_concurrent_threads() -> None:
    """As when a server starts with models of two kinds and an owner asks for a price."""
    code = (
        "import sys, threading\n"
        "from sshwarma.models import prices, providers\n"
        "from sshwarma.settings import ModelSettings\n"
        "sys.setswitchinterval(1e-5)\n"
        "keys = {'OPENAI_API_KEY': 'a', 'ANTHROPIC_API_KEY': 'b'}\n"
        "def made(kind): return ModelSettings(name='a', kind=kind, model='m')\n"
        "kinds = ('openai', 'anthropic', 'ollama')\n"
        "work = [lambda k=k: providers.load_model(made(k), keys) for k in kinds]\n"
        "work += [lambda k=k: prices.is_price_known(made(k)) for k in kinds]\n"
        "failed = []\n"
        "threading.excepthook = failed.append\n"
        "threads = [threading.Thread(target=one) for one in work]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "assert not failed, failed\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)


async def test_estimate_usage_returns_nothing_before_the_first_request(played: Played) -> None:
    assert played.backend.estimate_usage(request(), "") is None
    await played.backend.ready()
    owed = played.backend.estimate_usage(request(), "I think that it is " * 10)
    assert owed is not None
    assert owed.estimated
    assert owed.prompt_tokens > 0
    assert owed.completion_tokens > 40


def test_usage_that_cannot_be_right_is_estimated() -> None:
    """Else one answer would use up the tokens of a day."""
    real = ModelResponse(parts=[], usage=RequestUsage(input_tokens=9_000, output_tokens=10))
    assert _read_usage(real, 8_000) == TokenUsage(9_000, 10)
    absurd = ModelResponse(parts=[], usage=RequestUsage(input_tokens=10**19, output_tokens=10))
    assert _read_usage(absurd, 8_000) is None
