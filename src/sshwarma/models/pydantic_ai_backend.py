"""Backends that ask real models, each over the wire of its server.

Made from settings, and light until first asked: the libraries behind are loaded then, in a thread.
What streams is passed on as it comes, but for calls: they are passed on whole, when the stream has
ended well, so that nothing half received is ever run.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from sshwarma.models.backend import (
    BackendFailed,
    Call,
    Part,
    Request,
    Text,
    Thought,
    Usage,
    Waiting,
)
from sshwarma.models.errors import Cut, Empty, Fault, Silent, expected, fault
from sshwarma.models.messages import Given, estimate, messages, parameters
from sshwarma.models.prices import priced
from sshwarma.models.providers import KINDS, Loaded, load
from sshwarma.settings import ModelSettings

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse, ModelResponseStreamEvent, ToolCallPart


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a model could last not answer, and when, in Unix seconds."""

    words: str
    at: float


class ModelBackend:
    """The backend of one model of the settings. `failure` is the last one since it was made;
    `failing`, whether nothing has gone well after it."""

    def __init__(self, settings: ModelSettings, environ: Mapping[str, str] | None = None) -> None:
        """`environ` is where keys are looked for; the process's own if not given."""
        self.failure: Failure | None = None
        self.failing = False
        self._settings = settings
        self._asked = 0  # streams that are open
        self._retired = False
        self._was_ready = False
        held = os.environ if environ is None else environ
        self._load = lambda: load(settings, held)  # not a field: what holds keys is not shown
        self._plain = KINDS[settings.kind].plain
        self._given = Given()
        self._loaded: Loaded | None = None
        self._loading = asyncio.Lock()

    @property
    def model(self) -> str:
        return self._settings.model

    @property
    def context_tokens(self) -> int:
        return self._settings.context_tokens or KINDS[self._settings.kind].context_tokens

    @property
    def settings(self) -> ModelSettings:
        return self._settings

    async def ready(self) -> Loaded:
        """Load what the model needs now rather than at the first question.

        Raises:
            BackendFailed: if its key or a package is missing.
        """
        async with self._loading:
            if self._loaded is None:
                try:
                    self._loaded = await asyncio.to_thread(self._load)
                    self._was_ready = True
                except BackendFailed as failed:
                    self._fail(failed)
                    raise
            return self._loaded

    async def close(self) -> None:
        """Close the connections. It may be asked again; it then opens new ones."""
        async with self._loading:
            loaded, self._loaded = self._loaded, None
        if loaded is not None:
            await loaded.http.aclose()

    async def retire(self) -> None:
        """Close when nobody is being answered: at once, or as the last answer ends."""
        self._retired = True
        if not self._asked:
            await self.close()

    def owed(self, request: Request, said: str) -> Usage | None:
        """See `Metered.owed`."""
        if not self._was_ready:
            return None
        system = request.system or self._settings.prompt
        return priced(self._settings, estimate(request, system, said, ()), None)

    def _fail(self, failed: BackendFailed) -> None:
        self.failure = Failure(str(failed), time.time())
        self.failing = True

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """See `Backend.stream`. Asked again, if that may help, only while nothing has come."""
        self._asked += 1
        try:
            async with aclosing(self._try(await self.ready(), request)) as parts:
                async for part in parts:
                    yield part
            self.failing = False
        except BackendFailed as failed:
            self._fail(failed)
            raise
        finally:
            self._asked -= 1
            if self._retired and not self._asked:
                await self.close()

    async def _try(self, loaded: Loaded, request: Request) -> AsyncGenerator[Part, None]:
        """Ask, and ask again."""
        for tried in count(1):
            begun = False
            wrong: Fault | None = None
            try:
                async with aclosing(self._ask(loaded, request)) as parts:
                    async for part in parts:
                        begun = True
                        yield part
            except expected() as error:
                wrong = fault(error, self._settings, loaded.key, begun=begun)
            # Raised out here so that it does not drag the library's exception along, which holds
            # the request with its headers.
            if wrong is None:
                return
            if begun or tried >= wrong.tries:
                raise wrong.failed
            seconds = wrong.wait(tried)
            yield Waiting(seconds, wrong.why)
            await asyncio.sleep(seconds)

    async def _ask(self, loaded: Loaded, request: Request) -> AsyncGenerator[Part, None]:
        """Ask once."""
        from pydantic_ai.direct import model_request_stream

        system = request.system or self._settings.prompt
        sent = messages(request, system, self._given, plain=self._plain)
        first, stall = self._settings.first_token_seconds, self._settings.stall_seconds
        text = held = ""  # blank text is held until there is more: by itself it is no answer
        async with AsyncExitStack() as stack:
            async with _within(first, begun=False):
                asked = model_request_stream(
                    loaded.model,
                    sent,
                    model_settings=loaded.knobs,
                    model_request_parameters=parameters(request),
                )
                stream = await stack.enter_async_context(asked)
                events = aiter(stream)
                event = await anext(events, None)
            while event is not None:
                for part in _parts(event):
                    if isinstance(part, Thought):
                        yield part
                    else:
                        text += part.delta
                        held += part.delta
                        if text.strip():
                            yield Text(held)
                            held = ""
                async with _within(stall, begun=True):
                    event = await anext(events, None)
            answer = stream.get()
        if loaded.ends and not _ended(answer):
            raise Cut
        names = {offer.name for offer in request.offers}
        calls = [_call(part, names) for part in answer.tool_calls]
        if not calls and not text.strip():
            raise Empty(answer.finish_reason or "")
        asis = all(not call.broken for call in calls) and all(
            call.name == part.tool_name for call, part in zip(calls, answer.tool_calls, strict=True)
        )
        if calls and asis:
            self._given.keep(text, calls, answer)
        for call in calls:
            yield call
        counted = _usage(answer)
        used = counted or estimate(request, system, text, calls)
        yield priced(self._settings, used, answer if counted else None)


@asynccontextmanager
async def _within(seconds: float, *, begun: bool) -> AsyncIterator[None]:
    """Give up on what is inside after some seconds. Never held across a yield to the asker, who
    may take their time."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise Silent(seconds, begun=begun) from None


def _parts(event: ModelResponseStreamEvent) -> Iterator[Text | Thought]:
    """What an event adds to the answer or to the thoughts before it."""
    from pydantic_ai.messages import (
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ThinkingPart,
        ThinkingPartDelta,
    )

    if isinstance(event, PartStartEvent):
        if isinstance(event.part, TextPart) and event.part.content:
            yield Text(event.part.content)
        elif isinstance(event.part, ThinkingPart) and event.part.content:
            yield Thought(event.part.content)
    elif isinstance(event, PartDeltaEvent):
        if isinstance(event.delta, TextPartDelta) and event.delta.content_delta:
            yield Text(event.delta.content_delta)
        elif isinstance(event.delta, ThinkingPartDelta) and event.delta.content_delta:
            yield Thought(event.delta.content_delta)


def _ended(answer: ModelResponse) -> bool:
    """Whether the server said why it stopped. One that did not was cut off, however politely the
    connection was closed; pydantic-ai would take it for whole."""
    return bool((answer.provider_details or {}).keys() & {"finish_reason", "refusal"})


def _call(part: ToolCallPart, names: set[str]) -> Call:
    name = collapsed(part.tool_name, names)
    arguments: Any
    try:
        arguments = part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError) as error:
        words = " ".join(str(error).split())[:200]
        return Call(part.tool_call_id, name, {}, f"the arguments are no JSON object: {words}")
    return Call(part.tool_call_id, name, arguments)


def collapsed(name: str, names: set[str]) -> str:
    """The tool that is meant by a name that a server sent with each piece of the call:
    `looklooklook` is `look`."""
    if name in names:
        return name
    for known in names:
        times, rest = divmod(len(name), len(known))
        if times > 1 and not rest and known * times == name:
            return known
    return name


def _usage(answer: ModelResponse) -> Usage | None:
    """What the provider counted; None if it did not count."""
    counted = answer.usage
    if counted.unmeasured_requests or not (counted.input_tokens or counted.output_tokens):
        return None
    return Usage(counted.input_tokens, counted.output_tokens)
