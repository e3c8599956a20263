"""Supervisor of one server: keeps it connected and makes the calls.

`server_state` shows its states, `reconnect` when it retries. Only the supervisor's task enters and
leaves a connection, because one that breaks cancels that task. Calls run in their callers' tasks.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import structlog

from sshwarma.mcp.client.call_queue import CallQueue
from sshwarma.mcp.client.connection_errors import (
    MAX_REASON_CHARACTERS,
    call_refused_error,
    describe_connection_error,
    down_hint,
    first_error,
    is_unreachable,
)
from sshwarma.mcp.client.link import (
    Dialer,
    KeyRequired,
    LinkCallbacks,
    LinkLost,
    ProgressCallback,
    ProtocolEra,
    ResponseLost,
    ServerInfo,
    ServerLink,
    SignInRequired,
)
from sshwarma.mcp.client.log_buffer import LogBuffer
from sshwarma.mcp.client.reconnect import backoff_seconds, is_port_open
from sshwarma.mcp.client.server_events import SupervisorListener
from sshwarma.mcp.client.server_state import LOCKED_OUT_STATES, ServerState, SupervisorTiming
from sshwarma.settings import McpSettings
from sshwarma.tools.provider import ToolResult
from sshwarma.world.errors import Unavailable

log = structlog.get_logger(__name__)


class Supervisor:
    """Keeps one server connected from `start` to `stop`.

    `slots` limits how many servers connect at the same time.
    """

    def __init__(
        self,
        settings: McpSettings,
        folder: Path,
        era: ProtocolEra,
        dial: Callable[[], Awaitable[Dialer]],
        listener: SupervisorListener,
        timing: SupervisorTiming,
        slots: asyncio.Semaphore,
    ) -> None:
        self.settings = settings
        self.log_buffer = LogBuffer()
        self.state: ServerState = "new"
        self.reason = ""
        self.since = time.monotonic()
        self.retry_at: float | None = None
        self.greeting: ServerInfo | None = None
        self._folder = folder
        self._era = era
        self._dial = dial
        self._listener = listener
        self._timing = timing
        self._slots = slots
        self._link: ServerLink | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._broken = ""
        self._doubtful = False
        self._relist_at = math.inf  # of time.monotonic()
        self._unsettled: list[asyncio.Future[None]] = []
        self.calls = CallQueue(settings, listener, self.log_buffer)
        self._timeouts = 0
        self._unreachable = False
        self._was_up = False

    def start(self) -> None:
        """Start connecting; reconnect until `stop`."""
        self._task = asyncio.create_task(self._run(), name=f"mcp {self.settings.name}")

    async def stop(self) -> None:
        """Close the connection and wait until it is closed."""
        self._set("stopped", "it was stopped")
        self._break("it was stopped")
        if self._task is not None:
            self._task.cancel()  # once: a second would interrupt the end of a program
            await asyncio.gather(self._task, return_exceptions=True)
        self._resolve_settled()

    def _stopped(self) -> bool:
        return self.state == "stopped"

    @property
    def is_up(self) -> bool:
        """Whether the server is connected and its tools are published."""
        return self._link is not None and self.state in ("up", "degraded")

    @property
    def in_flight(self) -> int:
        """Number of running calls."""
        return len(self.calls)

    async def wait_until_settled(self, seconds: float) -> None:
        """Wait until the server is up or an attempt failed, at most `seconds`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unsettled.append(future)
        await asyncio.wait({future}, timeout=seconds)

    async def refresh(self, seconds: float) -> None:
        """Read the listing now, or connect now with full protocol discovery."""
        if self._link is None:
            self._era = "auto"
        self._relist_at = time.monotonic()
        self._wake.set()
        await self.wait_until_settled(seconds)

    def redial(self, reason: str) -> None:
        """Close the connection and reconnect now."""
        if self._link is not None:
            self._break(reason)
        self._wake.set()

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        person_id: str | None,
        report: ProgressCallback | None,
    ) -> ToolResult:
        """Call a tool by the server's name for it.

        Raises:
            Unavailable: if the server is not connected, disconnects during the call, or is busy.
            TimeoutError: if the call takes longer than `call_seconds` of the settings.
        """
        if self._link is None:
            raise self._down_error()
        seconds = self.settings.call_seconds
        try:
            async with self.calls.acquire(person_id, seconds) as mark:
                return await self._carry_out(tool, arguments, report, mark)
        except TimeoutError:
            self._count_timeout()
            raise TimeoutError(f"Timed out after {seconds:g} s.") from None

    async def _carry_out(
        self, tool: str, arguments: dict[str, Any], report: ProgressCallback | None, mark: object
    ) -> ToolResult:
        link = self._link
        if link is None:  # it disconnected while this call was queued
            raise self._down_error()
        try:
            result = await link.call(tool, arguments, report, mark)
        except LinkLost as lost:
            if link is self._link:
                self._break(str(lost))
            raise Unavailable(
                f"{self.settings.name} disconnected during the call:"
                f" {self._broken or self.reason or lost}.",
                hint="The call may or may not have taken effect.",
            ) from lost
        except KeyRequired as needs:
            if link is self._link:
                self._break(str(needs))
            raise call_refused_error(self.settings.name, needs) from needs
        except ResponseLost as doubtful:
            self._doubtful = True
            self._wake.set()
            raise Unavailable(
                f"{self.settings.name} did not respond: {doubtful}.",
                hint="The call may or may not have taken effect.",
            ) from doubtful
        self._timeouts = 0
        if self.state == "degraded":
            self._set("up")
        return result

    @property
    def why_down(self) -> str:
        """Why the server is not connected; empty if it is up."""
        reason = f"{self.settings.name} is not connected{': ' if self.reason else ''}{self.reason}"
        return "" if self.is_up else reason

    def _down_error(self) -> Unavailable:
        wait = self.retry_at - time.monotonic() if self.retry_at is not None else None
        return Unavailable(f"{self.why_down}.", hint=down_hint(self.settings, self.state, wait))

    def _count_timeout(self) -> None:
        self._timeouts += 1
        if self._timeouts >= self._timing.max_timed_out_calls and self.state == "up":
            self._set("degraded", f"its last {self._timeouts} calls timed out")
            self._doubtful = True
            self._wake.set()

    # The task.

    async def _run(self) -> None:
        failures, logged_reason = 0, ""
        # A breaking connection can swallow a cancellation, so check the state too.
        while not self._stopped():
            started_at = time.monotonic()
            reason = await self._run_connection()
            if self._stopped():
                return
            if time.monotonic() - started_at > self._timing.stable_seconds and self._was_up:
                failures = 0
            failures += 1
            self._resolve_settled()
            wait = backoff_seconds(self._timing, self.state, failures)
            log_down = log.warning if reason != logged_reason else log.debug
            log_down("an mcp server is down", server=self.settings.name, reason=reason, wait=wait)
            logged_reason = reason
            await self._pause(wait)

    async def _run_connection(self) -> str:
        """Connect, list the tools and watch until the connection ends; return why."""
        self._broken, self._relist_at = "", math.inf
        self._set("connecting")
        self._doubtful = self._was_up = self._unreachable = False
        down_tasks: list[asyncio.Task[None]] = []
        try:
            await self._hold_connection(down_tasks)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                self._lose_connection(down_tasks)
                await asyncio.gather(*down_tasks, return_exceptions=True)
                raise
            reason = self._broken or "the connection broke"
        except Exception as error:  # noqa: BLE001 - any error of a server ends only its link
            is_known = self._broken and not isinstance(first_error(error), KeyRequired)
            reason = self._broken if is_known else self._handle_connection_error(error)
        else:
            reason = self._broken
        self._lose_connection(down_tasks)
        if self.state not in (*LOCKED_OUT_STATES, "stopped"):
            self._set("down", reason)
        await asyncio.gather(*down_tasks, return_exceptions=True)
        return reason

    async def _hold_connection(self, down_tasks: list[asyncio.Task[None]]) -> None:
        callbacks = LinkCallbacks(self._on_listing_changed, self._break, self.calls.ask)
        settings = self.settings
        async with AsyncExitStack() as stack:
            async with self._slots, asyncio.timeout(settings.start_seconds):
                dial = await self._dial()
                link = await stack.enter_async_context(
                    dial(settings, self._folder, self._era, self.log_buffer, callbacks)
                )
                listing = await link.tools(settings.max_tools)
            self._era = link.greeting.era
            self.greeting = link.greeting
            self._link, self._was_up = link, True
            try:
                await self._listener.on_up(link.greeting, listing)
                self._set("up")
                self._resolve_settled()
                await self._watch(link)
            finally:
                # Before the connection is closed, which may be slow.
                self._lose_connection(down_tasks)

    def _lose_connection(self, down_tasks: list[asyncio.Task[None]]) -> None:
        """Stop calls and mark the server unavailable, once for each connection."""
        if self._link is not None:
            self._link = None
            self._set("down", self._broken)
            # In a separate task: the broken connection may be cancelling this one.
            down_tasks.append(asyncio.create_task(self._listener.on_down()))

    async def _watch(self, link: ServerLink) -> None:
        timing, failed_probes = self._timing, 0
        now = time.monotonic()
        probe_at, refresh_at = now + timing.probe, now + timing.refresh
        while True:
            wake_at = min(probe_at, refresh_at, self._relist_at)
            self._wake.clear()
            if not self._doubtful and not self._broken:
                await self._wait_for_wake(wake_at - time.monotonic())
            if self._broken:
                return
            now = time.monotonic()
            if now >= refresh_at or now >= self._relist_at:
                self._relist_at, refresh_at = math.inf, now + timing.refresh
                await self._relist(link)
            elif now >= probe_at or self._doubtful:
                probe_at, self._doubtful = now + timing.probe, False
                failed_probes = 0 if await self._answers_probe(link) else failed_probes + 1
                if failed_probes:
                    probe_at = now + timing.probe / timing.max_failed_probes
                if failed_probes >= timing.max_failed_probes:
                    self._break(f"{failed_probes} probes failed")

    async def _relist(self, link: ServerLink) -> None:
        """Read the tool listing again; on failure keep the old one and probe."""
        try:
            async with asyncio.timeout(self.settings.start_seconds):
                listing = await link.tools(self.settings.max_tools)
        except Exception as error:  # noqa: BLE001 - as above
            self.log_buffer.append(
                f"its listing could not be read: {self._handle_connection_error(error)}"
            )
            self._doubtful = True
        else:
            await self._listener.on_up(link.greeting, listing)
        self._resolve_settled()

    async def _answers_probe(self, link: ServerLink) -> bool:
        try:
            async with asyncio.timeout(self._timing.probe_timeout):
                await link.probe()
        except Exception as error:  # noqa: BLE001 - as above
            self.log_buffer.append(f"a probe failed: {self._handle_connection_error(error)}")
            return False
        return True

    async def _wait_for_wake(self, seconds: float) -> bool:
        """Wait at most `seconds`; return whether the task was woken."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True

    async def _pause(self, seconds: float) -> None:
        """Wait before the next attempt.

        The wait ends early when a closed port opens again or a person asks for a refresh.
        """
        deadline = time.monotonic() + seconds
        self.retry_at = deadline
        self._wake.clear()
        while (seconds_left := deadline - time.monotonic()) > 0:
            check_port = self._unreachable and self.settings.url is not None
            if await self._wait_for_wake(
                min(seconds_left, self._timing.port_check_seconds) if check_port else seconds_left
            ):
                break
            if check_port and await is_port_open(self.settings, self._timing.port_check_seconds):
                break
        self.retry_at = None

    # Callbacks of the connection.

    def _on_listing_changed(self) -> None:
        if self._relist_at == math.inf:
            self._relist_at = time.monotonic() + self._timing.debounce_seconds
            self._wake.set()

    def _break(self, reason: str) -> None:
        if not self._broken:
            self._broken = reason[:MAX_REASON_CHARACTERS] or "the connection broke"
            self._wake.set()

    # State and reasons.

    def _set(self, state: ServerState, reason: str = "") -> None:
        if state != self.state:
            self.since = time.monotonic()
        if self.state != "stopped":
            self.state = state
        if reason or state == "up":
            self.reason = reason

    def _resolve_settled(self) -> None:
        futures, self._unsettled = self._unsettled, []
        for future in futures:
            if not future.done():
                future.set_result(None)

    def _handle_connection_error(self, error: BaseException) -> str:
        """Set the state that an error leads to, and return the reason for people."""
        leaf = first_error(error)
        if isinstance(leaf, SignInRequired):
            self._set("needs-sign-in", str(leaf))
            self._listener.on_sign_in_required(str(leaf))
        elif isinstance(leaf, KeyRequired):
            self._set("needs-key", str(leaf))
        self._unreachable = is_unreachable(leaf)
        return describe_connection_error(leaf, self.settings)
