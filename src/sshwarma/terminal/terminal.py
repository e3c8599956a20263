"""A person's terminal: input bytes become callbacks, blocks become output bytes.

It connects the parser, the editor, completion and the output. Keys are echoed before `feed`
returns; other output waits for the frame clock. Nothing here blocks, and all memory is bounded:
see the limits below and in keys, buffer, history and output.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sshwarma.common.limits import MAX_KEYS_BURST, MAX_KEYS_PER_SECOND
from sshwarma.common.rate_limit import TokenBucket
from sshwarma.terminal import theme as themes
from sshwarma.terminal.clock import FrameClock
from sshwarma.terminal.completion import CompletionSource
from sshwarma.terminal.completion_menu import TabCompletion
from sshwarma.terminal.editor import Editor, EditorAction
from sshwarma.terminal.history import InputHistory
from sshwarma.terminal.keys import KeyParser, KeyPress
from sshwarma.terminal.output import TerminalOutput
from sshwarma.terminal.picture import ImageMode
from sshwarma.terminal.render import DisplayOptions
from sshwarma.terminal.screen import LiveBlock, ScreenView, clamp_size
from sshwarma.terminal.text import Block, Line, Span, block, line
from sshwarma.terminal.vi import ViMode

ESCAPE_WAIT_SECONDS: Final = 0.05
"""Seconds after which a lone escape is the Escape key."""

PASTE_WAIT_SECONDS: Final = 1.0
"""Seconds of silence after which an unclosed paste ends."""

MAX_INSTANT_DRAFT_CHARACTERS: Final = 4096
"""Length above which a changed draft is drawn with the next frame, not at once."""


def _always_echo(text: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class TerminalCallbacks:
    """Callbacks of a terminal, called when its person does something.

    Attributes:
        complete: the completion source, see `completion.CompletionSource`.
        echo: returns whether a submitted line stays in the scrollback; on a plain screen all do.
    """

    on_line: Callable[[str], None]
    on_interrupt: Callable[[], None]
    on_eof: Callable[[], None]
    complete: CompletionSource
    echo: Callable[[str], bool] = _always_echo


@dataclass(frozen=True, slots=True)
class TerminalOptions:
    """Display and editing options a terminal starts with; see `Terminal.configure`."""

    theme: str = themes.DARK
    utf8: bool = True
    plain: bool = False
    vi: bool = False
    images: ImageMode = "off"


DEFAULT_TERMINAL_OPTIONS: Final = TerminalOptions()


class Terminal:
    """The screen and keyboard of one person.

    Args:
        write: takes bytes for the client; called from `feed`, the frame clock, `start`, `frame`
            and `close`, and never while paused, except once by `close`.
        history: lines submitted before, oldest first, shared by reference and never changed.
    """

    __slots__ = (
        "_callbacks", "_changed", "_choosing", "_clock", "_editor", "_keys", "_output", "_parser",
        "_prompt", "_submitted", "_timer", "_told", "_typed",
    )  # fmt: skip

    def __init__(
        self,
        write: Callable[[bytes], None],
        callbacks: TerminalCallbacks,
        options: TerminalOptions = DEFAULT_TERMINAL_OPTIONS,
        *,
        columns: int,
        rows: int,
        history: Sequence[str] = (),
        clock: FrameClock,
    ) -> None:
        columns, rows = clamp_size(columns, rows)
        look = DisplayOptions(
            columns,
            themes.choose_theme(options.theme),
            options.utf8,
            options.plain,
            options.images,
        )
        self._callbacks = callbacks
        self._clock = clock
        self._output = TerminalOutput(write, self._show, clock, look, rows)
        self._editor = Editor(history, vi=options.vi)
        self._choosing = TabCompletion(
            callbacks.complete, self._editor, self._output, clock.loop, self._on_completed
        )
        self._parser = KeyParser()
        self._prompt: Sequence[Span] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._keys = TokenBucket(MAX_KEYS_PER_SECOND, MAX_KEYS_BURST, clock.now)
        self._told = ""  # the last refusal shown
        self._submitted = False  # whether the keys just processed submitted a line
        self._typed = ""  # typed at the end of the draft and not yet echoed
        self._changed = False  # whether keys made another visible change

    @property
    def look(self) -> DisplayOptions:
        """The current display options."""
        return self._output.look

    @property
    def rows(self) -> int:
        """Rows of the screen."""
        return self._output.rows

    @property
    def history(self) -> InputHistory:
        """Lines that Up walks through; `history.added` has those submitted here."""
        return self._editor.history

    @property
    def draft(self) -> str:
        """The text typed and not submitted."""
        return self._editor.buffer.text

    @property
    def submit_limit(self) -> int:
        """Maximum length of a submitted line in bytes of UTF-8."""
        return self._editor.submit_limit

    @submit_limit.setter
    def submit_limit(self, limit: int) -> None:
        self._editor.submit_limit = limit

    # -- lifecycle

    def start(self) -> None:
        """Set up the client's terminal and draw the prompt."""
        self._output.start()

    def close(self) -> None:
        """Print waiting blocks and restore the terminal, with the cursor on a new line."""
        if self._output.open:
            self._cancel_timer()
            self._choosing.close()
            self._output.close()

    def pause(self) -> None:
        """Write nothing until `resume`, because the writer is full."""
        self._output.pause()

    def resume(self) -> None:
        """Write again, and print how many lines were skipped."""
        self._output.resume()

    # -- contents

    def print(self, block: Block) -> None:
        """Print a block to the scrollback with the next frame."""
        self._output.print(block)

    def set_prompt(self, *spans: Span) -> None:
        """Set the prompt before the draft."""
        self._prompt = spans
        self._output.request_frame()

    def set_status(self, line: Line | None) -> None:
        """Set the line under the prompt, cut to the width; None removes it."""
        self._output.view.status = line
        self._output.request_frame()

    def set_live_block(self, key: str, block: Block | None, progress: Line | None = None) -> None:
        """Show a changing block and its progress line above the prompt; None removes it.

        Blocks appear in the order of their first calls. Together they get half of the screen,
        divided fairly, and the newest rows of each are shown. A plain screen shows no live block.
        """
        if block is None:
            self._output.view.live.pop(key, None)
        else:
            self._output.view.live[key] = LiveBlock(block, progress)
        self._output.request_frame()

    def has_room_for(self, block: Block) -> bool:
        """Return whether all rows of a block fit on the screen, above the prompt."""
        return self._output.has_room_for(block)

    def is_drawn_for_size(self, block: Block) -> bool:
        """Return whether a block was drawn last for the present size."""
        return self._output.is_drawn_for_size(block)

    def shows_all_of(self, block: Block) -> bool:
        """Return whether all of a block is on the screen, drawn for its size."""
        return self._output.shows_all_of(block)

    def prefill(self, text: str) -> None:
        """Replace the draft."""
        self._choosing.close()
        self._editor.prefill(text)
        self._output.request_frame()

    def bell(self) -> None:
        """Ring the bell once, with the next frame."""
        self._output.bell()

    def frame(self) -> None:
        """Write the next frame now."""
        self._output.frame()

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the client's window; the next frame redraws the region for it."""
        self._output.resize(columns, rows)

    def configure(
        self,
        *,
        theme: str | None = None,
        plain: bool | None = None,
        vi: bool | None = None,
        utf8: bool | None = None,
        images: ImageMode | None = None,
    ) -> None:
        """Change display and editing options; None keeps the current value."""
        if vi is not None and vi != (self._editor.vi is not None):
            self._editor.vi = ViMode() if vi else None
        look = self.look
        self._output.set_display_options(
            replace(
                look,
                theme=look.theme if theme is None else themes.choose_theme(theme),
                utf8=look.utf8 if utf8 is None else utf8,
                plain=look.plain if plain is None else plain,
                images=look.images if images is None else images,
            )
        )

    def _show(self, view: ScreenView) -> None:
        """Update the view from the editor."""
        editor = self._editor
        query = editor.search_query
        view.prompt = (
            self._prompt if query is None else (("dim", "(search) "), ("", query), ("dim", ": "))
        )
        view.text = editor.text
        view.cursor = editor.cursor
        # A frame shows all typed text; a later echo must not repeat it.
        self._typed = ""

    # -- keys

    def feed(self, data: bytes) -> None:
        """Process bytes from the client, in bounded time and without raising."""
        self._cancel_timer()
        for key in self._parser.feed(data):
            if not self._keys.try_take():
                self._parser.reset()
                self._print_hint("too much input at once: some keys were dropped")
                break
            self._press(key)
        self._echo()
        if self._parser.has_pending_input and self._output.open:
            wait = PASTE_WAIT_SECONDS if self._parser.is_pasting else ESCAPE_WAIT_SECONDS
            self._timer = self._clock.call_later(wait, self._flush_keys)

    def end_input(self) -> None:
        """Process what is held for input that would complete it: none comes."""
        self._cancel_timer()
        if self._output.open:
            self._flush_keys()

    def _on_completed(self) -> None:
        """Show the line or menu that a completion has changed."""
        self._changed = True
        self._echo()

    def _flush_keys(self) -> None:
        """Process an incomplete sequence or unclosed paste after its timeout."""
        self._timer = None
        for key in self._parser.flush():
            self._press(key)
        self._echo()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _echo(self) -> None:
        """Show the keys just processed, at once unless the draft is long."""
        text, self._typed = self._typed, ""
        is_changed, self._changed = self._changed, False
        if self._submitted:
            # Draw in the next turn of the loop, after the task that runs the line had one: most
            # results are ready by then and go out in the same frame.
            self._submitted = False
            self._clock.call_soon(self._output.draw if self._editor.text else self._output.frame)
        elif is_changed or (text and not self._output.echo_typed(text)):
            if len(self._editor.text) > MAX_INSTANT_DRAFT_CHARACTERS:
                self._output.request_frame()
            else:
                self._output.draw()

    def _press(self, key: KeyPress) -> None:
        if not self._output.open:
            return
        had_menu = self._output.view.menu is not None
        if self._choosing.press(key):
            self._changed = True
            return
        self._changed = self._changed or had_menu  # the key has closed the menu
        editor = self._editor
        buffer = editor.buffer
        size = len(buffer.text)
        is_insert = key.name == "text" and (editor.vi is None or editor.vi.insert)
        is_append = is_insert and buffer.cursor == size and editor.search_query is None
        act = editor.press(key)
        if act is EditorAction.DRAW:
            self._told = ""
            if is_append and len(buffer.text) == buffer.cursor == size + len(key.data):
                self._typed += key.data
            else:
                self._changed = True
        elif act is not EditorAction.NOTHING:
            self._act(act)

    def _act(self, act: EditorAction) -> None:
        if act is EditorAction.SUBMIT:
            self._submit()
        elif act is EditorAction.COMPLETE:
            self._choosing.request_candidates()
        elif act is EditorAction.INTERRUPT:
            self._callbacks.on_interrupt()
        elif act is EditorAction.EOF:
            self._callbacks.on_eof()
        elif act is EditorAction.REPAINT:
            self._output.repaint()
            self._changed = True
        elif act is EditorAction.BELL:
            # Draw no frame: the screen is unchanged, and input over the limit must cost little.
            self._output.bell()
            if self._editor.notice:
                self._print_hint(self._editor.notice)
                self._editor.notice = ""

    def _submit(self) -> None:
        text = self._editor.buffer.text
        if self.look.plain:
            self._output.hold_prompt(answered=bool(text.strip()))
        elif self._callbacks.echo(text):
            self._output.print(self._spoken_text(text))
        self._editor.take_submitted()
        self._submitted = True
        self._output.request_frame()  # the owner may ask for a frame at once
        self._callbacks.on_line(text)

    def _spoken_text(self, text: str) -> Block:
        """Draw the submitted line for the scrollback."""
        first_line, *rest = text.split("\n")
        pad = "  "
        return block(
            line(*self._prompt, ("dim", first_line), hang=len(pad)),
            *(line(pad, ("dim", part), hang=len(pad)) for part in rest),
        )

    def _print_hint(self, notice: str) -> None:
        """Show a refusal once, until a key is accepted again."""
        if notice != self._told:
            self._told = notice
            self._output.print(block(line(("warn", notice))))
