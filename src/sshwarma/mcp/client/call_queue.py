"""Queue of tool calls to one server: concurrency, timeouts and callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from sshwarma.common.limits import MAX_QUEUED_CALLS
from sshwarma.common.messages import with_limit
from sshwarma.common.refusals import count_refusal
from sshwarma.mcp.client.link import ElicitationRequest
from sshwarma.mcp.client.log_buffer import LogBuffer
from sshwarma.settings import McpSettings
from sshwarma.world.errors import Unavailable

AMBIGUOUS_MESSAGE: Final = (
    "The server asked a question, but several people have calls running, so it is unclear who"
    " should answer. Retry when they finish."
)


class UserPrompter(Protocol):
    """Asks and notifies people."""

    async def ask(self, person_id: str, question: ElicitationRequest) -> dict[str, Any] | None:
        """Ask a person; return the answers by field, or None if they decline."""

    def notify(self, person_id: str, text: str) -> None:
        """Notify a person of something that needs no answer."""


@dataclass(eq=False)
class _RunningCall:
    """A running call, the person it is for, and its timeout.

    The timeout is paused while that person is asked a question.
    """

    person_id: str | None
    clock: asyncio.Timeout
    open_questions: int = 0
    seconds_left: float = 0.0
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def pause_clock(self) -> None:
        self.open_questions += 1
        deadline = self.clock.when()
        if self.open_questions == 1 and deadline is not None:
            self.seconds_left = deadline - asyncio.get_running_loop().time()
            self.clock.reschedule(None)

    def resume_clock(self) -> None:
        self.open_questions -= 1
        if self.open_questions == 0 and not self.ended.is_set():
            loop = asyncio.get_running_loop()
            self.clock.reschedule(loop.time() + max(1.0, self.seconds_left))


class CallQueue:
    """Limits the concurrent calls to a server; its length is the number running.

    Attributes:
        queued_count: Number of calls that wait to start.
        started_count: Number of calls that were accepted, since the server was enabled.
        failed_count: Number of those that timed out or whose connection failed.
    """

    def __init__(self, settings: McpSettings, asker: UserPrompter, log_buffer: LogBuffer) -> None:
        self._settings = settings
        self._asker = asker
        self._log = log_buffer
        self._running: dict[object, _RunningCall] = {}
        self._free = asyncio.Semaphore(settings.calls_at_once)
        self.queued_count = self.started_count = self.failed_count = 0

    def __len__(self) -> int:
        return len(self._running)

    @asynccontextmanager
    async def acquire(self, person_id: str | None, seconds: float) -> AsyncIterator[object]:
        """Run a call when a slot is free.

        Yields the call's mark, which links the server's questions to the call. `seconds` includes
        the time in the queue.

        Raises:
            Unavailable: if MAX_QUEUED_CALLS calls are waiting.
            TimeoutError: if the call takes longer than `seconds`.
        """
        if self._free.locked() and self.queued_count >= MAX_QUEUED_CALLS:
            count_refusal("mcp_server_calls")
            raise Unavailable(
                f"{self._settings.name} is busy. "
                f"{with_limit('Too many queued calls', MAX_QUEUED_CALLS)}.",
                hint="Retry when one has finished.",
            )
        self.started_count += 1
        try:
            async with asyncio.timeout(seconds) as clock:
                await self._wait_for_turn()
                mark = object()
                call = self._running[mark] = _RunningCall(person_id, clock)
                try:
                    yield mark
                finally:
                    del self._running[mark]
                    call.ended.set()
                    self._free.release()
        except Exception:
            self.failed_count += 1
            raise

    async def ask(self, question: ElicitationRequest, mark: object | None) -> dict[str, Any] | None:
        """Ask the person whose call it is; return their answers, or None if declined.

        The older protocol does not say which call a question belongs to (`mark` is None). Then the
        question is asked only if all running calls are for the same person.
        """
        own_call = self._running.get(mark) if mark is not None else None
        calls = [own_call] if own_call is not None else list(self._running.values())
        people = {call.person_id for call in calls}
        if len(people) != 1 or (person_id := people.pop()) is None:
            self._decline(question, people)
            return None
        answer_task = asyncio.create_task(self._asker.ask(person_id, question))
        end_task = asyncio.create_task(_wait_for_calls(calls))
        for call in calls:
            call.pause_clock()
        try:
            await asyncio.wait({answer_task, end_task}, return_when=asyncio.FIRST_COMPLETED)
            return answer_task.result() if answer_task.done() else None
        finally:
            for call in calls:
                call.resume_clock()
            for task in (answer_task, end_task):
                task.cancel()
            await asyncio.gather(answer_task, end_task, return_exceptions=True)

    def _decline(self, question: ElicitationRequest, people: Iterable[str | None]) -> None:
        self._log.append(f"a question was declined: no single person to ask: {question.message}")
        for person_id in people:
            if person_id is not None:
                self._asker.notify(person_id, AMBIGUOUS_MESSAGE)

    async def _wait_for_turn(self) -> None:
        self.queued_count += 1
        try:
            await self._free.acquire()
        finally:
            self.queued_count -= 1


async def _wait_for_calls(concerned: list[_RunningCall]) -> None:
    """Return when all of these calls have ended and nobody needs the answer."""
    for call in concerned:
        await call.ended.wait()
