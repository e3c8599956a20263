"""One person's terminal: bytes in, callbacks out; blocks in, bytes out.

Binds the parser, the editor, completion and the screen. Keys are echoed before `feed` returns;
everything else waits for the frame clock. Nothing here blocks, and nothing grows without bound:
see the limits below and in keys, buffer and history.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from sshwarma.terminal import theme as themes
from sshwarma.terminal.clock import FrameClock
from sshwarma.terminal.completion import Candidate, Menu, Request, Source, shared
from sshwarma.terminal.editor import Act, Editor
from sshwarma.terminal.history import History
from sshwarma.terminal.keys import Key, Parser
from sshwarma.terminal.line_mode import LineMode
from sshwarma.terminal.render import Look, render
from sshwarma.terminal.screen import Screen, View, clamp
from sshwarma.terminal.text import Block, Line, Span, block, line
from sshwarma.terminal.vi import Vi

RECENT_MAX: Final = 200
"""Blocks kept, by reference, to paint the screen again after a resize."""

QUEUE_MAX: Final = 500
"""Blocks that wait while the writer is full; the oldest are dropped and counted."""

ESCAPE_WAIT: Final = 0.05
"""Seconds after which a lone escape is the Escape key."""

PASTE_WAIT: Final = 1.0
"""Seconds of silence after which a paste that was not closed is taken as it is."""

KEYS_PER_SECOND: Final = 10_000
KEYS_BURST: Final = 4_000
"""Keys (a run of text or a paste is one) taken at once; beyond, the packet's rest is dropped."""

DRAFT_LONG: Final = 4096
"""Characters above which a changed draft is drawn with the next frame, not at once."""


class Terminal:
    """The screen and keyboard of one person.

    write: takes bytes for the client; called from `feed`, from the frame clock, `start` and
    `close`, and never while paused. complete: the completion source, see `completion.Source`.
    history: lines submitted before, oldest first, shared by reference and never changed.
    echo: whether a submitted line stays in the scrollback; where the screen is plain, it does.
    """

    __slots__ = (
        "_bell", "_changed", "_clock", "_complete", "_echoes", "_editor", "_keys", "_keys_at",
        "_look", "_on_eof", "_on_interrupt", "_on_line", "_open", "_parser", "_paused", "_pending",
        "_prelude", "_prompt", "_recent", "_repaint", "_request", "_screen", "_skipped", "_timer",
        "_told", "_typed", "_view", "_write",
    )  # fmt: skip

    def __init__(
        self,
        write: Callable[[bytes], None],
        *,
        columns: int,
        rows: int,
        theme: str = themes.DARK,
        utf8: bool = True,
        plain: bool = False,
        on_line: Callable[[str], None],
        on_interrupt: Callable[[], None],
        on_eof: Callable[[], None],
        complete: Source,
        history: Sequence[str] = (),
        clock: FrameClock,
        vi: bool = False,
        echo: Callable[[str], bool] = lambda text: True,
    ) -> None:
        columns, rows = clamp(columns, rows)
        self._write = write
        self._on_line = on_line
        self._on_interrupt = on_interrupt
        self._on_eof = on_eof
        self._echoes = echo
        self._complete = complete
        self._clock = clock
        self._look = Look(columns, themes.choose(theme), utf8, plain)
        self._screen: Screen | LineMode = _screen(self._look, rows)
        self._view = View()
        self._prompt: Sequence[Span] = ()
        self._editor = Editor(history, vi=vi)
        self._parser = Parser()
        self._pending: deque[Block] = deque()
        self._recent: deque[Block] = deque(maxlen=RECENT_MAX)
        self._request: Request | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._keys = float(KEYS_BURST)
        self._keys_at = clock.now()
        self._prelude = b""  # written before the next frame: a change of mode
        self._skipped = 0
        self._typed = ""  # typed at the end of the draft and not yet echoed
        self._told = ""  # the last refusal shown
        self._open = self._paused = self._changed = self._repaint = self._bell = False

    @property
    def look(self) -> Look:
        """How this terminal shows text now."""
        return self._look

    @property
    def rows(self) -> int:
        return self._screen.rows

    @property
    def history(self) -> History:
        """Lines that Up walks through; `history.added` are those submitted here."""
        return self._editor.history

    @property
    def draft(self) -> str:
        """What is typed and not submitted."""
        return self._editor.buffer.text

    @property
    def submit_limit(self) -> int:
        """Bytes of UTF-8 a submitted line may have."""
        return self._editor.submit_limit

    @submit_limit.setter
    def submit_limit(self, limit: int) -> None:
        self._editor.submit_limit = limit

    # -- life

    def start(self) -> None:
        """Take the client's terminal over and draw the prompt."""
        self._open = True
        self._prelude = self._screen.start
        self._changed = True
        self.frame()

    def close(self) -> None:
        """Print what waits and give the terminal back clean, the cursor on a fresh line."""
        if not self._open:
            return
        committed = b"" if self._paused else self._committed()
        last = self._screen.frame(self._view, committed) if committed else b""
        last += self._screen.leave() + self._screen.stop
        self._open = False
        self._clock.forget(self)
        self._cancel_timer()
        self._close_menu()
        self._pending.clear()
        self._recent.clear()
        self._view.live.clear()
        self._write(last)

    def pause(self) -> None:
        """The writer is full: write nothing until `resume`."""
        self._paused = True

    def resume(self) -> None:
        """The writer has room again: say how much was skipped, and go on."""
        if not self._paused:
            return
        self._paused = False
        if self._skipped:
            self._pending.appendleft(block(line(("dim", f"[{self._skipped} lines skipped]"))))
            self._skipped = 0
        self._mark()

    # -- what is shown

    def print(self, block: Block) -> None:
        """Commit a block to the scrollback, with the next frame."""
        self._pending.append(block)
        if self._paused and len(self._pending) > QUEUE_MAX:
            self._skipped += max(1, len(self._pending.popleft().lines))
        self._clock.mark(self)

    def set_prompt(self, *spans: Span) -> None:
        """What stands before the draft."""
        self._prompt = spans
        self._mark()

    def set_status(self, line: Line | None) -> None:
        """The line under the prompt, cut to the width; None for none."""
        self._view.status = line
        self._mark()

    def set_live(self, key: str, block: Block | None) -> None:
        """Show a block above the prompt that may still change; None takes it away.

        Blocks stand in the order their keys first came; together they get half of the screen,
        and the newest rows of them are shown.
        """
        if block is None:
            self._view.live.pop(key, None)
        else:
            self._view.live[key] = block
        self._mark()

    def prefill(self, text: str) -> None:
        """Replace the draft."""
        self._close_menu()
        self._editor.prefill(text)
        self._mark()

    def bell(self) -> None:
        """Ring once, with the next frame."""
        self._bell = True
        self._clock.mark(self)

    def resize(self, columns: int, rows: int) -> None:
        """The client's window has another size; the screen is painted again with the next frame."""
        columns, rows = clamp(columns, rows)
        if (columns, rows) != (self._look.width, self._screen.rows):
            self._screen.rows = rows
            self._relook(replace(self._look, width=columns))

    def configure(
        self,
        *,
        theme: str | None = None,
        plain: bool | None = None,
        vi: bool | None = None,
        utf8: bool | None = None,
    ) -> None:
        """Change how the terminal looks and edits; None leaves as it is."""
        if vi is not None and vi != (self._editor.vi is not None):
            self._editor.vi = Vi() if vi else None
        look = replace(
            self._look,
            theme=self._look.theme if theme is None else themes.choose(theme),
            utf8=self._look.utf8 if utf8 is None else utf8,
            plain=self._look.plain if plain is None else plain,
        )
        if look.plain != self._look.plain:
            old = self._screen
            self._screen = _screen(look, old.rows)
            if self._open:
                self._prelude += old.leave() + old.stop + self._screen.start
        if look != self._look:
            self._relook(look)

    def _relook(self, look: Look) -> None:
        self._look = self._screen.look = look
        self._repaint = True
        self._mark()

    def frame(self) -> None:
        """Write what has changed since the last frame. The frame clock calls this."""
        if not self._open or self._paused:
            return
        out = b"\x07" if self._bell else b""
        self._bell = False
        if self._prelude:
            out += self._prelude
            self._prelude = b""
        if self._typed or self._changed or self._repaint:
            self._refresh()
        if self._repaint and not self._look.plain:
            self._recent.extend(self._pending)
            self._pending.clear()
            out += self._screen.repaint(self._view, self._recent)
        elif self._pending or self._changed:
            out += self._screen.frame(self._view, self._committed())
        self._changed = self._repaint = False
        if out:
            self._write(out)

    def _mark(self) -> None:
        self._changed = True
        self._clock.mark(self)

    def _refresh(self) -> None:
        """Bring the view up to date with the editor."""
        self._typed = ""
        view, editor = self._view, self._editor
        query = editor.searching
        view.prompt = (
            self._prompt if query is None else (("dim", "(search) "), ("", query), ("dim", ": "))
        )
        view.text = editor.text
        view.cursor = editor.cursor
        self._screen.stale()
        self._changed = True

    def _committed(self) -> bytes:
        pending = self._pending
        if not pending:
            return b""
        look = self._look
        self._recent.extend(pending)
        if len(pending) == 1:
            return render(pending.popleft(), look)
        rows = b"".join([render(block, look) for block in pending])
        pending.clear()
        return rows

    # -- keys

    def feed(self, data: bytes) -> None:
        """Bytes from the client. Whatever they are, the work is bounded and nothing is raised."""
        if not self._open:
            return
        self._cancel_timer()
        now = self._clock.now()
        self._keys = min(KEYS_BURST, self._keys + (now - self._keys_at) * KEYS_PER_SECOND)
        self._keys_at = now
        for key in self._parser.feed(data):
            self._keys -= 1
            if self._keys < 0:
                self._keys = 0
                self._parser.reset()
                self._tell("that is more than a person types: some keys were dropped")
                break
            self._press(key)
        self._echo()
        if self._parser.pending:
            self._await_rest()

    def _await_rest(self) -> None:
        """See to it that half a sequence, or a paste without an end, is not waited for."""
        if self._open:
            wait = PASTE_WAIT if self._parser.pasting else ESCAPE_WAIT
            self._timer = self._clock.after(wait, self._flush_keys)

    def _flush_keys(self) -> None:
        self._timer = None
        for key in self._parser.flush():
            self._press(key)
        self._echo()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _echo(self) -> None:
        """Show the keys just taken, at once unless the draft is long."""
        if not self._open:
            return
        if self._paused:
            self._changed = self._changed or bool(self._typed)
        elif self._typed and not self._changed:
            typed = self._typed
            echo = self._screen.typed(typed, self._view.text)
            if echo is None:
                self._draw()
                return
            self._view.text += typed
            self._view.cursor = len(self._view.text)
            self._typed = ""
            self._write(echo)
        elif self._changed:
            self._draw()

    def _draw(self) -> None:
        self._changed = True
        if len(self._editor.text) > DRAFT_LONG:
            self._clock.mark(self)
        else:
            self.frame()

    def _press(self, key: Key) -> None:
        if not self._open:
            return
        if self._view.menu and self._choose(self._view.menu, key):
            self._changed = True
            return
        editor = self._editor
        buffer = editor.buffer
        size = len(buffer.text)
        at_end = key.name == "text" and buffer.cursor == size and editor.searching is None
        act = editor.press(key)
        if act is Act.DRAW:
            self._told = ""
            if at_end and len(buffer.text) == buffer.cursor == size + len(key.data):
                self._typed += key.data
            else:
                self._changed = True
        elif act is not Act.NOTHING:
            self._act(act)

    def _act(self, act: Act) -> None:
        if act is Act.SUBMIT:
            self._submit()
        elif act is Act.COMPLETE:
            self._ask()
        elif act is Act.INTERRUPT:
            self._on_interrupt()
        elif act is Act.EOF:
            self._on_eof()
        elif act is Act.REPAINT:
            self._changed = self._repaint = True
        elif act is Act.BELL:
            self._bell = self._changed = True
            if self._editor.notice:
                self._tell(self._editor.notice)
                self._editor.notice = ""

    def _submit(self) -> None:
        if self._look.plain and not self._paused:
            # The typed line itself is what stays above.
            self._refresh()
            self._write(self._screen.frame(self._view, self._committed()))
            self._write(self._screen.submitted())
        elif not self._look.plain and self._echoes(self._editor.buffer.text):
            self._pending.append(self._spoken(self._editor.buffer.text))
        text = self._editor.take()
        self._changed = True
        self._on_line(text)

    def _spoken(self, text: str) -> Block:
        """The submitted line as it stays in the scrollback."""
        first, *rest = text.split("\n")
        pad = "  "
        return block(
            line(*self._prompt, ("dim", first), hang=len(pad)),
            *(line(pad, ("dim", part), hang=len(pad)) for part in rest),
        )

    def _tell(self, notice: str) -> None:
        """Show a refusal, once until a key is taken again."""
        if notice != self._told:
            self._told = notice
            self.print(block(line(("warn", notice))))
            self._changed = True

    # -- completion

    def _ask(self) -> None:
        self._close_menu()
        buffer = self._editor.buffer
        self._request = Request(
            self._clock.loop, self._complete, buffer.text, buffer.cursor, self._answer
        )

    def _answer(self, text: str, cursor: int, candidates: Sequence[Candidate]) -> None:
        """What the source proposed for a line, unless the line is another by now."""
        self._request = None
        buffer = self._editor.buffer
        searching = self._editor.searching is not None
        if not self._open or searching or (buffer.text, buffer.cursor) != (text, cursor):
            return
        candidates = [item for item in candidates if 0 <= item.start <= cursor]
        if not candidates:
            self.bell()
        elif len(candidates) == 1:
            only = candidates[0]
            self._insert(only.start, only.text + " " * only.space)
        else:
            start, common = candidates[0].start, shared(candidates)
            if len(common) > cursor - start:
                self._insert(start, common)
            self._view.menu = Menu(candidates, buffer.text, buffer.cursor)
            if self._look.plain:
                labels = "  ".join(item.label for item in candidates)
                self.print(block(line(labels)))
        self._changed = True
        self._echo()

    def _insert(self, start: int, text: str) -> None:
        buffer = self._editor.buffer
        if not buffer.replace(start, buffer.cursor, text):
            self._bell = True

    def _choose(self, menu: Menu, key: Key) -> bool:
        """A key while the menu is open; False when it closes the menu and means something else."""
        buffer = self._editor.buffer
        name = key.name
        if name in ("tab", "down", "c-n", "s-tab", "up", "c-p"):
            candidate = menu.step(1 if name in ("tab", "down", "c-n") else -1)
            rest = menu.text[menu.cursor :]
            whole = menu.text[: candidate.start] + candidate.text
            buffer.set(whole + rest, len(whole))
            return True
        chosen = menu.chosen
        self._close_menu()
        if name == "escape":
            buffer.set(menu.text, menu.cursor)
            return True
        if name == "enter" and chosen:
            if chosen.space:
                buffer.insert(" ")
            return True
        return False

    def _close_menu(self) -> None:
        if self._view.menu is not None:
            self._view.menu = None
            self._changed = True
        if self._request is not None:
            self._request.cancel()
            self._request = None


def _screen(look: Look, rows: int) -> Screen | LineMode:
    return LineMode(look, rows) if look.plain else Screen(look, rows)
