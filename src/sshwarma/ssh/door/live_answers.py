"""Answers that are still coming, as terminals show them: the newest of the text, and under it who
answers, for how long, how much, and what it waits for.

Made once for all terminals in a room. While anybody watches a turn, one timer for the whole server
lets the seconds go on; without turns, or without watchers, there is none.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sshwarma.common.limits import MAX_SHOWN_ANSWER_CHARACTERS
from sshwarma.terminal.markdown import highlight_newest_code
from sshwarma.terminal.text import Block, Line, block, line, lines_with_head
from sshwarma.world.events import StreamEnded, StreamUpdated
from sshwarma.world.world import World

ELAPSED_REDRAW_SECONDS: Final = 0.25
"""How often the elapsed time is drawn while nothing else comes."""

MAX_SILENT_TURN_SECONDS: Final = 900.0
"""A turn of which nothing was heard for so long is no longer shown. Every turn tells its end; this
is for one whose end could not be told."""

MAX_LIVE_CHARACTERS: Final = 6_000
MAX_LIVE_LINES: Final = 100
"""How much of a text is drawn while it grows: no live area shows more. The place where it is cut
moves on in steps of LIVE_STEP, so that its rows do not jump with every word."""

LIVE_CUT_STEP_CHARACTERS: Final = 2_000

_SPACE: Final = re.compile(r"\s")
_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


@dataclass(frozen=True, slots=True)
class LiveAnswerView:
    """An answer that is still coming: what there is of its text, and how far it is. Not all are
    answers: a tool that somebody called says how far it is, too."""

    who: str
    text: Block
    progress: Line
    answers: bool = True


class AnswerWatcher(Protocol):
    """A terminal that stands in a room."""

    def show_answer(self, turn_id: str, coming: LiveAnswerView | None) -> None:
        """An answer there is as far as this now; None: nothing more comes."""


class _LiveTurn:
    """One turn that runs. Its text is drawn when somebody watches and it has changed."""

    def __init__(self, who: str, answers: bool, event: StreamUpdated) -> None:
        self.who = who
        self.answers = answers
        self.event = event
        self.heard_at = time.monotonic()
        self.fences = 0  # fences in the text when it was last looked at for finished code
        self._drawn: tuple[str, Block] = ("", Block())

    def coming(self, now: float) -> LiveAnswerView:
        text = self.event.text.strip()
        if self._drawn[0] != text:
            lines = (
                lines_with_head(("model", self.who), ": ", text=cut_to_newest(text)) if text else ()
            )
            self._drawn = (text, block(*lines))
        progress = _draw_progress(self.who, self.event, now)
        return LiveAnswerView(self.who, self._drawn[1], progress, self.answers)


class LiveAnswerFeed:
    """The answers that are coming in every room, and who watches them."""

    def __init__(
        self, world: World, in_background: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]]
    ) -> None:
        self._world = world
        self._in_background = in_background
        self._rooms: dict[str, dict[str, _LiveTurn]] = {}
        self._watchers: dict[str, dict[AnswerWatcher, None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._preparing: asyncio.Task[Any] | None = None
        world.bus.on(StreamUpdated, self._streams)
        world.bus.on(StreamEnded, self._ended)

    def watch(self, room_id: str, watcher: AnswerWatcher) -> None:
        """Show what is coming in a room to a watcher, now and as it comes."""
        self._watchers.setdefault(room_id, {})[watcher] = None
        now = time.monotonic()
        for turn_id, answer in self._rooms.get(room_id, {}).items():
            watcher.show_answer(turn_id, answer.coming(now))
        self._set_timer()

    def stop(self, room_id: str, watcher: AnswerWatcher) -> None:
        """Show it to a watcher no more, and take away what it was shown."""
        watchers = self._watchers.get(room_id, {})
        if watcher not in watchers:
            return
        del watchers[watcher]
        if not watchers:
            del self._watchers[room_id]
        for turn_id in self._rooms.get(room_id, {}):
            watcher.show_answer(turn_id, None)
        self._set_timer()

    def _streams(self, event: StreamUpdated) -> None:
        answers = self._rooms.setdefault(event.room_id, {})
        answer = answers.get(event.turn_id)
        if answer is None:
            author = self._world.agents.get(event.author_id)
            who = self._world.agents.name_of(event.author_id)
            is_model = author is not None and author.kind == "model"
            answer = answers[event.turn_id] = _LiveTurn(who, is_model, event)
        answer.event = event
        answer.heard_at = time.monotonic()
        if event.room_id in self._watchers:
            self._prepare(answer)
            self._show(event.room_id, event.turn_id, answer.coming(answer.heard_at))
            self._set_timer()

    def _ended(self, event: StreamEnded) -> None:
        answers = self._rooms.get(event.room_id, {})
        if answers.pop(event.turn_id, None) is not None:
            self._show(event.room_id, event.turn_id, None)
        if not answers:
            self._rooms.pop(event.room_id, None)
        self._set_timer()

    def _show(self, room_id: str, turn_id: str, coming: LiveAnswerView | None) -> None:
        for watcher in list(self._watchers.get(room_id, ())):
            watcher.show_answer(turn_id, coming)

    def _prepare(self, answer: _LiveTurn) -> None:
        """Have a piece of code highlighted once it is whole, in a thread: it takes longer than
        anything else in an answer, and will be there when the answer is."""
        text = answer.event.text
        if len(text) > MAX_SHOWN_ANSWER_CHARACTERS:
            return
        fences = text.count("```")
        if fences == answer.fences or (self._preparing and not self._preparing.done()):
            return
        answer.fences = fences
        if fences and fences % 2 == 0:
            self._preparing = self._in_background(asyncio.to_thread(highlight_newest_code, text))

    # The seconds.

    def _set_timer(self) -> None:
        """Have the timer run if somebody watches a turn, and only then."""
        if not any(room_id in self._watchers for room_id in self._rooms):
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ELAPSED_REDRAW_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = time.monotonic()
        for room_id, answers in list(self._rooms.items()):
            for turn_id, answer in list(answers.items()):
                if now - answer.heard_at > MAX_SILENT_TURN_SECONDS:
                    self._ended(StreamEnded(room_id, turn_id))
                elif room_id in self._watchers:
                    self._show(room_id, turn_id, answer.coming(now))
        self._set_timer()


def cut_to_newest(text: str) -> str:
    """The end of a text that is still growing: what is drawn of it."""
    start = 0
    if len(text) > MAX_LIVE_CHARACTERS:
        start = (
            (len(text) - MAX_LIVE_CHARACTERS + LIVE_CUT_STEP_CHARACTERS - 1)
            // LIVE_CUT_STEP_CHARACTERS
            * LIVE_CUT_STEP_CHARACTERS
        )
        space = _SPACE.search(text, start, start + 200)
        start = space.end() if space else start
    lines = text[start:].split("\n")
    cut = start > 0 or len(lines) > MAX_LIVE_LINES
    return "…" * cut + "\n".join(lines[-MAX_LIVE_LINES:])


def _draw_progress(who: str, event: StreamUpdated, now: float) -> Line:
    elapsed = max(0.0, now - event.since)
    turn = _SPINNER[int(elapsed / ELAPSED_REDRAW_SECONDS) % len(_SPINNER)]
    about = [_format_elapsed(elapsed)]
    if event.tokens:
        about.append(f"{_format_token_count(event.tokens)} tokens")
    if event.doing:
        about.append(_format_tool_names(event.doing))
    if event.waiting:
        about.append(event.waiting)
    return line(("mark", f"{turn} "), ("model", who), ("dim", f" {' · '.join(about)}"))


def _format_elapsed(elapsed: float) -> str:
    if elapsed < 10:
        return f"{elapsed:.1f}s"
    minutes, seconds = divmod(int(elapsed), 60)
    return f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"


def _format_token_count(count: int) -> str:
    return f"{count}" if count < 1000 else f"{count / 1000:.1f}k"


def _format_tool_names(names: tuple[str, ...]) -> str:
    """`look, who ×2`: tools without their namespaces, as a model's name of them has it."""
    counted = Counter(name.rpartition("__")[2] or name for name in names)
    return ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in counted.items())
