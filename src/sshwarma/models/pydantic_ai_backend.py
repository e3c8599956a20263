"""Backend for real models, through pydantic-ai.

A backend is cheap until its first request, which loads the libraries in a thread. Text is streamed
as it arrives. Tool calls are passed on only after the stream has ended successfully, so that no
partial call is run.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from sshwarma.common.json_guard import check_json_size
from sshwarma.common.shorten import shorten_text
from sshwarma.models.backend import (
    AnswerCut,
    BackendError,
    FailureRecord,
    RequestSent,
    RetryDelay,
    StepRequest,
    StreamPart,
    TextDelta,
    TextFold,
    ToolCall,
)
from sshwarma.models.control_tokens import restore_control_tokens
from sshwarma.models.errors import classify_error, expected_exceptions
from sshwarma.models.messages import ResponseCache, build_messages, build_parameters, estimate_usage
from sshwarma.models.model_client import ModelClient
from sshwarma.models.prices import add_cost
from sshwarma.models.profiles import find_output_tokens, find_profile
from sshwarma.models.providers import PROVIDER_KINDS, LoadedModel, ProviderKind
from sshwarma.models.request_body import PreviewEnded, begin_record, preview_body
from sshwarma.models.retry import ModelFailure
from sshwarma.models.stream_deltas import ArgumentCounter, read_deltas, split_reasoning
from sshwarma.models.stream_errors import (
    EmptyAnswer,
    StreamDamaged,
    StreamStalled,
    StreamTruncated,
)
from sshwarma.models.think_tags import ThinkTagSplitter
from sshwarma.settings import ModelSettings
from sshwarma.world.usage import TokenUsage
from sshwarma.wrap.profiles import ContextProfile

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse, ToolCallPart
    from pydantic_ai.settings import ModelSettings as PydanticAISettings

MAX_CONTEXTS_PER_USAGE: Final = 10
"""Contexts that the usage of one step may have; the size of a context may be set too small."""

log = structlog.get_logger(__name__)


class PydanticAIBackend:
    """Backend of one model of the settings.

    Attributes:
        last_failure: The last failure since the start, if any.
        is_failing: Whether no request has succeeded since that failure.
    """

    def __init__(
        self,
        settings: ModelSettings,
        environ: Mapping[str, str] | None = None,
        models_dir: Path | None = None,
    ) -> None:
        """Create the backend of a model.

        Args:
            settings: Settings of the model.
            environ: Variables that may hold its key; by default the process's own.
            models_dir: Folder of the server's downloads, for kind local.
        """
        self.last_failure: FailureRecord | None = None
        self.is_failing = False
        self._settings = settings
        self._open_streams = 0
        self._is_retired = False
        variables = os.environ if environ is None else environ
        self._client = ModelClient(settings, variables, self.context_tokens, models_dir)
        self._responses = ResponseCache()

    @property
    def model(self) -> str:
        """Name of the model, as its provider knows it."""
        return self._settings.model

    @property
    def context_tokens(self) -> int:
        """Context window in tokens."""
        return self._settings.context_tokens or PROVIDER_KINDS[self._settings.kind].context_tokens

    @property
    def result_tokens(self) -> int:
        """Tokens for results of tools, by the share of the settings."""
        return round(self.context_tokens * self._settings.result_share)

    @property
    def provider_kind(self) -> str:
        """Kind of provider, as in the settings."""
        return self._settings.kind

    @property
    def profile(self) -> ContextProfile:
        """How much the model is sent, by its settings, kind and size."""
        return find_profile(self._settings, self.context_tokens)

    @property
    def output_tokens(self) -> int:
        """Maximum output tokens of one step."""
        return find_output_tokens(self._settings, self.context_tokens)

    @property
    def settings(self) -> ModelSettings:
        """Settings of the model."""
        return self._settings

    async def ready(self) -> LoadedModel:
        """Load the model now, not at the first request; start the process of a local one.

        Raises:
            BackendError: if its key, a package or its file is missing.
        """
        with self._recording_failure():
            return await self._client.ready()

    async def preload(self) -> None:
        """Do what takes seconds before the first question, but start no process.

        Raises:
            BackendError: as `ready`.
        """
        with self._recording_failure():
            await self._client.preload()

    async def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        await self._client.close()

    async def retire(self) -> None:
        """Close the connections when no answer is streaming."""
        self._is_retired = True
        if not self._open_streams:
            await self.close()

    def estimate_usage(self, request: StepRequest, text: str) -> TokenUsage | None:
        """See `MeteredBackend.estimate_usage`."""
        if not self._client.was_ready:
            return None
        system = request.system or self._settings.prompt
        return add_cost(self._settings, estimate_usage(request, system, text, ()), None)

    @contextmanager
    def _recording_failure(self) -> Iterator[None]:
        """Record the failure that is raised inside."""
        try:
            yield
        except BackendError as error:
            self.last_failure = FailureRecord(str(error), time.time())
            self.is_failing = True
            raise

    async def stream(self, request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        """See `Backend.stream`; retries only before the first part has arrived."""
        self._open_streams += 1
        try:
            with self._recording_failure():
                async with aclosing(self._stream_with_retries(request)) as parts:
                    async for part in parts:
                        yield part
            self.is_failing = False
        finally:
            self._open_streams -= 1
            if self._is_retired and not self._open_streams:
                await self.close()

    async def preview(self, request: StepRequest) -> bytes:
        """See `PreviewBackend.preview`; it starts no process."""
        async with self._client.preview() as loaded:
            endings: tuple[type[Exception], ...] = (PreviewEnded, *expected_exceptions())
            with preview_body() as record:
                try:
                    async with aclosing(self._stream_once(loaded, request)) as parts:
                        await anext(parts, None)
                except endings as error:
                    if not record.body:
                        failure = classify_error(error, self._settings, loaded.key, has_begun=False)
                        raise failure.error from None
        return record.body

    async def _stream_with_retries(self, request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        """Send the request, with retries; each restarts a local model's ended process."""
        for attempt in count(1):
            loaded = await self.ready()
            has_begun = False
            failure: ModelFailure | None = None
            record = begin_record()
            try:
                async with aclosing(self._stream_once(loaded, request)) as parts:
                    async for part in parts:
                        if record.body and not has_begun:
                            yield RequestSent(record.body)
                        has_begun = True
                        yield part
            except expected_exceptions() as error:
                failure = classify_error(error, self._settings, loaded.key, has_begun=has_begun)
            if record.body and not has_begun:
                yield RequestSent(record.body)
            # Raise outside the handler, so that the error does not reference the library's
            # exception, which holds the request with its headers.
            if failure is None:
                return
            if has_begun or attempt >= failure.max_attempts:
                raise failure.error
            seconds = failure.retry_delay(attempt)
            yield RetryDelay(seconds, failure.reason)
            await asyncio.sleep(seconds)

    async def _stream_once(
        self, loaded: LoadedModel, request: StepRequest
    ) -> AsyncGenerator[StreamPart, None]:
        """Send the request once."""
        from pydantic_ai.direct import model_request_stream

        system, kind = request.system or self._settings.prompt, PROVIDER_KINDS[self._settings.kind]
        messages = build_messages(
            request,
            system,
            self._responses,
            plain=kind.merges_roles,
            marks_cache=kind.supports_cache,
        )
        thinking, arguments = ThinkTagSplitter(), ArgumentCounter(self.output_tokens)
        text = buffer = ""  # blank text is held back: alone it is not an answer
        async with AsyncExitStack() as stack:
            async with _provider_read(self._settings.first_token_seconds, has_begun=False):
                stream_context = model_request_stream(
                    loaded.model,
                    messages,
                    model_settings=_settings_for(loaded, request, kind),
                    model_request_parameters=build_parameters(
                        request, with_tools=kind.has_tool_choice or not request.is_last
                    ),
                )
                stream = await stack.enter_async_context(stream_context)
                events = aiter(stream)
                event = await anext(events, None)
            while event is not None:
                for part in split_reasoning(read_deltas(event), thinking):
                    if not isinstance(part, TextDelta):
                        text, buffer = ("", "") if isinstance(part, TextFold) else (text, buffer)
                        yield part
                    else:
                        text += part.delta
                        buffer += part.delta
                        if text.strip():
                            yield TextDelta(buffer)
                            buffer = ""
                if arguments.exceeds_limit(event):
                    yield AnswerCut()
                    return
                async with _provider_read(self._settings.stall_seconds, has_begun=True):
                    event = await anext(events, None)
            answer = stream.get()
        if (rest := thinking.end()) and (text := text + rest).strip():
            yield TextDelta(buffer + rest)
        if loaded.reports_finish_reason and not _has_finish_reason(answer):
            raise StreamTruncated
        calls = self._read_calls(answer, request, text)
        if not answer.tool_calls and not text.strip():
            raise EmptyAnswer(answer.finish_reason or "")
        for call in calls:
            yield call
        if answer.finish_reason == "length":
            yield AnswerCut()
        reported_usage = _read_usage(answer, self.context_tokens)
        usage = reported_usage or estimate_usage(request, system, text, calls)
        yield add_cost(self._settings, usage, answer if reported_usage else None)

    def _read_calls(self, answer: ModelResponse, request: StepRequest, text: str) -> list[ToolCall]:
        """Return the tool calls of an answer, and keep the answer for the next step.

        Without the call in whose arguments an answer reached its maximum length.
        """
        names = {offer.name for offer in request.tools}
        calls = [_parse_tool_call(part, names) for part in answer.tool_calls]
        is_unchanged = all(not call.parse_error for call in calls) and all(
            call.name == part.tool_name for call, part in zip(calls, answer.tool_calls, strict=True)
        )
        if calls and is_unchanged:
            self._responses.store(text, calls, answer)
        is_cut = answer.finish_reason == "length"
        return [call for call in calls if not (is_cut and call.parse_error)]


@asynccontextmanager
async def _provider_read(seconds: float, *, has_begun: bool) -> AsyncIterator[None]:
    """Wait for an event: raise StreamStalled if late, StreamDamaged if unreadable.

    An event is late after `seconds`. Never hold this context across a yield, because the consumer
    may be slow.
    """
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise StreamStalled(seconds, has_begun=has_begun) from None
    except (AttributeError, TypeError, LookupError, ValueError) as error:
        # The SDKs do not check the form of an event: one with other types fails in their code.
        log.warning("an event of a provider could not be read", exc_info=error)
        raise StreamDamaged("an event has another form than the API of its kind") from None


def _settings_for(
    loaded: LoadedModel, request: StepRequest, kind: ProviderKind
) -> PydanticAISettings:
    """Return the settings of a request: in the last step no tool may be called."""
    if request.is_last and request.tools and kind.has_tool_choice:
        return {**loaded.request_settings, "tool_choice": "none"}
    return loaded.request_settings


def _has_finish_reason(answer: ModelResponse) -> bool:
    """Return whether the server sent a finish reason.

    A response without one was truncated, even if the connection was closed cleanly; pydantic-ai
    would accept it as complete.
    """
    return bool((answer.provider_details or {}).keys() & {"finish_reason", "refusal"})


def _parse_tool_call(part: ToolCallPart, names: set[str]) -> ToolCall:
    if not isinstance(part.tool_name, str):
        raise StreamDamaged("the name of a called tool is not a string")
    name = collapse_repeated_name(part.tool_name, names)
    arguments: Any
    try:
        if isinstance(part.args, str):
            check_json_size(part.args)
        arguments = part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError, TypeError) as error:
        detail = shorten_text(" ".join(str(error).split()))
        detail = f"the arguments must be a JSON object: {detail}"
        return ToolCall(part.tool_call_id, name, {}, detail)
    return ToolCall(part.tool_call_id, name, restore_control_tokens(arguments))


def collapse_repeated_name(name: str, names: set[str]) -> str:
    """Restore a name that a server repeats in each chunk: `looklooklook` is `look`."""
    if name in names:
        return name
    for candidate in names:
        times, remainder = divmod(len(name), len(candidate))
        if times > 1 and not remainder and candidate * times == name:
            return candidate
    return name


def _read_usage(answer: ModelResponse, context_tokens: int) -> TokenUsage | None:
    """Return the provider's token usage; None if not counted, or impossible."""
    usage = answer.usage
    total = usage.input_tokens + usage.output_tokens
    if usage.unmeasured_requests or not total:
        return None
    if total > MAX_CONTEXTS_PER_USAGE * context_tokens:
        log.warning("a provider reported a usage that cannot be right", tokens=total)
        return None
    return TokenUsage(usage.input_tokens, usage.output_tokens)
