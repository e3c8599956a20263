"""The handler of one command without a terminal, such as `ssh host look`.

It accepts flags and piped text: `ssh host inv --json`, `cat log | ssh host '@guide what failed?'`.

Exit status: 0 done, 1 refused or a failed tool, 2 invalid arguments, 70 internal error, 130
interrupted.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any, Final

import structlog
from typing_extensions import override

from sshwarma.common.exit_status import (
    EXIT_FAILED,
    EXIT_INTERNAL_ERROR,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
)
from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.common.units import KIB
from sshwarma.events.event_feed import EventFeed
from sshwarma.ssh.door.context import (
    SshContext,
    encode_plain_block,
    encode_plain_lines,
)
from sshwarma.ssh.door.event_lines import write_event_lines
from sshwarma.ssh.door.exec_flags import (
    DOOR_FLAG,
    asks_for_help,
    check_flag_values,
    find_text,
    find_text_start,
    remove_door_flags,
)
from sshwarma.ssh.door.login_audit import origin_of
from sshwarma.ssh.door.paced_writer import WRITE_CHUNK_BYTES
from sshwarma.ssh.door.piped_file import PipedFile, check_given_text, find_given_text
from sshwarma.ssh.door.piped_result import find_piped_bytes, is_failed
from sshwarma.ssh.door.piped_text import PipedText, two_texts_error
from sshwarma.ssh.door.task_handler import TaskHandler
from sshwarma.ssh.transport.interfaces import Channel, ClientLink
from sshwarma.terminal.escape import escape_lines
from sshwarma.terminal.render import DisplayOptions, render_block
from sshwarma.terminal.text import block
from sshwarma.terminal.theme import MONO
from sshwarma.verbs import commands
from sshwarma.verbs.called_verb import find_typed, split_verb
from sshwarma.verbs.dispatch import check_may_pipe, run_line
from sshwarma.verbs.edit_draft import EditDraft, no_editor_error
from sshwarma.verbs.file_views import FileDownload
from sshwarma.verbs.grammar import TextForm, UnknownFlag, find_text_form
from sshwarma.verbs.line_rate import is_read_line
from sshwarma.verbs.refusal_view import draw_refusal
from sshwarma.verbs.registry import Verb, find_entry
from sshwarma.verbs.say import SentMessage, wait_for_answers
from sshwarma.verbs.unknown_verb import UnknownVerb, suggest_own_names
from sshwarma.verbs.views import draw_lines, draw_result, dump_json
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, WorldError, empty_error
from sshwarma.world.reader import PERSON

log = structlog.get_logger(__name__)

READ_BYTES: Final = 256 * KIB  # of a file at once
_DOOR_FLAGS: Final = ("--json", "--room ROOM", "--stdin", "--once KEY")


class ExecHandler(TaskHandler):
    """The handler of one command."""

    def __init__(
        self,
        context: SshContext,
        agent_id: str,
        link: ClientLink,
        channel: Channel,
        command: str,
    ) -> None:
        super().__init__(channel)
        self._context = context
        self._agent_id = agent_id
        self._origin = origin_of(link.peer)
        self._piped = PipedText(channel, context.settings.limits.stdin_bytes)
        self._writable = asyncio.Event()
        self._writable.set()
        self._utf8 = context.utf8(dict(channel.env))
        self._json = False
        self._waits = False  # --stdin: wait for piped input without a time limit
        self._once = ""
        self._file = self._expect_file(command)
        self._start(self._run(command))

    @override
    def data(self, data: bytes) -> None:
        if self._file is not None:
            self._file.add(data)
        else:
            self._piped.add(data)

    @override
    def eof(self) -> None:
        if self._file is not None:
            self._file.end()
        self._piped.end()

    @override
    def pause(self) -> None:
        """Hold back the rest of the output until the client reads."""
        self._writable.clear()

    @override
    def resume(self) -> None:
        self._writable.set()

    async def _run(self, command: str) -> None:
        try:
            status = await self._run_line(command)
        except asyncio.CancelledError:
            self._channel.exit(EXIT_INTERRUPTED)
            raise
        except Exception:
            log.exception("command failed")
            self._channel.write_stderr(f"{INTERNAL_ERROR}\n".encode())
            status = EXIT_INTERNAL_ERROR
        finally:
            if self._file is not None:
                self._file.close()
        self._channel.exit(status)

    async def _run_line(self, command: str) -> int:
        line = command.strip()
        try:
            # First: a command that fails early costs a line too.
            await self._context.line_rate.admit(
                self._agent_id,
                is_read=is_read_line(f"/{line.removeprefix('/')}", self._aliases),
                after="run the command again",
            )
            line, room_name = self._door_flags(line)
            with self._context.world.open_requests.begin(self._agent_id) as request:
                caller = self._context.make_caller(self._agent_id, "exec", self._origin)
                progress = None if self._json else self._show_progress
                caller = replace(caller, wants_json=self._json, wants_bytes=not self._json)
                caller = replace(caller, on_progress=progress, once=self._once)
                caller = await caller.in_accessible_room()
                if room_name:
                    caller = await caller.in_room(room_name)
                if await self._is_registration(caller, line):
                    return await self._confirm_registered(caller, line)
                line = await self._as_line(caller, line)
                if not self._channel.has_pty:
                    check_given_text(f" {line}", *self._find_verb(line))
                if self._file is not None:
                    blobs = self._context.services.workspaces.blobs
                    caller = replace(caller, upload=await self._file.receive(caller, blobs))
                piped = None if self._file is not None else await self._text_from_pipe(caller, line)
                # Again: roles and rooms may have changed while the pipe was read.
                caller = await caller.refreshed()
                request.room_id = caller.room_id
                result = await run_line(caller, line, piped)
                if isinstance(result, EditDraft) and not self._json:
                    raise no_editor_error(result)
                if isinstance(result, SentMessage) and result.turns:
                    result = await wait_for_answers(caller, result)
        except WorldError as error:
            await self._refuse(error, line)
            return EXIT_USAGE if isinstance(error, (Invalid, UnknownVerb)) else EXIT_FAILED
        await self._print_result(result)
        return EXIT_FAILED if is_failed(result) else EXIT_OK

    async def _print_result(self, result: object) -> None:
        if isinstance(result, EventFeed):
            async for part in write_event_lines(
                result, as_json=self._json, utf8=self._utf8, newline=self._newline
            ):
                await self._print(part)
        elif self._json:
            await self._print_json(dump_json(result))
        elif not self._channel.has_pty and (data := find_piped_bytes(result)) is not None:
            await self._print(data)
        elif isinstance(result, FileDownload) and not self._channel.has_pty:
            await self._print_file(result)
        else:
            await self._print(await asyncio.to_thread(self._plain_text, result))

    def _show_progress(self, text: str) -> None:
        self._channel.write_stderr(f"{escape_lines(text)}{self._newline}".encode(errors="replace"))

    def _door_flags(self, command: str) -> tuple[str, str]:
        """Parse the flags of this door; return the other words and the room.

        They are read at the end of the command, before its first argument or `= TEXT`, and anywhere
        if the verb takes no free text. Within a text, and after ` -- `, they belong to the text.

        Raises:
            Invalid: if `--room` has no name, or `--once` no key.
        """
        line, separator, program = f" {command}".partition(" -- ")
        verb, verb_words = self._find_verb(line)
        takes_text = verb is None or verb.text is not None
        start, end = find_text(line) if takes_text else (len(line), len(line))
        if verb is not None and verb.has_text_after_equals:
            start = min(end, max(start, find_text_start(line, verb, verb_words)))
        room = ""
        for part in (line[:start], line[end:]):
            for match in DOOR_FLAG.finditer(part):
                if match["name"] == "json":
                    self._json = True
                elif match["name"] == "stdin":
                    self._waits = True
                elif match["flag"] == "room":
                    room = match["value"]
                self._once = match["value"] if match["flag"] == "once" else self._once
        head, tail = (remove_door_flags(part) for part in (line[:start], line[end:]))
        text = line[start:end]
        line = head + text + tail
        words = len(verb.positional) - 1 if verb is not None else 0
        check_flag_values(text if takes_text else line, words if takes_text else None)
        return f"{line}{separator}{program}".strip(), room

    def _expect_file(self, command: str) -> PipedFile | None:
        """Return what reads the input if the command's verb takes bytes and has no text."""
        verb, verb_words = self._find_verb(command)
        if verb is None or not verb.takes_bytes or self._channel.has_pty or asks_for_help(command):
            return None
        has_text = bool(find_given_text(f" {command}", verb, verb_words))
        return None if has_text else PipedFile(verb, self._channel)

    @staticmethod
    def _find_verb(command: str) -> tuple[Verb | None, int]:
        """Return a command's verb and the number of words of its name; None if unknown."""
        line = "/" + remove_door_flags(command).strip().removeprefix("/")
        verb, end = find_typed(line) or (None, 0)
        return verb, len(line[:end].split())

    async def _is_registration(self, caller: Caller, command: str) -> bool:
        """Return whether a line is `register [CODE]`, and not a command of that name."""
        words = command.split(None, 1)
        return (
            bool(words)
            and words[0].removeprefix("/") == "register"
            and "register" not in caller.agent.aliases
            and await commands.find_typed_command(caller, "/register") is None
        )

    async def _confirm_registered(self, caller: Caller, command: str) -> int:
        """Say which agent the key belongs to, as a success: it is already registered."""
        name = caller.agent.name
        if self._json:
            await self._print_json({"registered": name})
            return EXIT_OK
        note = " The code was not used." if len(command.split()) > 1 else ""
        await self._print(
            f"Your key is registered already: you are {name}.{note}{self._newline}".encode()
        )
        return EXIT_OK

    async def _as_line(self, caller: Caller, command: str) -> str:
        """Return the command as a typed line: add the slash that a verb may omit here.

        Raises:
            NotFound: if the first word is not a verb, alias, command or mention.
            Invalid: if the command is empty.
        """
        word = command.split(None, 1)[0] if command else ""
        if word.startswith(("/", "@")):
            return command
        is_known = find_entry(word) is not None or word.lower() in caller.agent.aliases
        if not is_known and await commands.find_typed_command(caller, f"/{command}") is None:
            self._check_verb(command, await commands.list_own_names(caller))
            raise empty_error("command", hint="Example: ssh HOST look")
        return f"/{command}"

    def _check_verb(self, command: str, own_names: list[str]) -> None:
        """Raise unless a command without a slash begins with a verb.

        Raises:
            WorldError: naming the nearest verb, with the span of the word in the command.
        """
        try:
            split_verb(f"/{command}")
        except WorldError as error:
            if isinstance(error, UnknownVerb):
                suggest_own_names(error, command, own_names)
            if error.span is not None:
                error.span = (max(0, error.span[0] - 1), max(0, error.span[1] - 1))
            raise

    async def _text_from_pipe(self, caller: Caller, line: str) -> str | None:
        """Read standard input if the verb takes text.

        A verb without its required text waits until the input ends. A verb that has text waits
        PIPE_WAIT_SECONDS for input to begin, because a pipe may add text but an interactive
        terminal never ends its input. With `--stdin` it waits until the end. Where texts are exact,
        nothing is added to one after `=`, and an empty input is an empty text with `--stdin`.

        Raises:
            Invalid: if the input is longer than `limits.stdin_bytes`, or is no text; if an exact
                text comes besides words that may belong to a name.
            Forbidden: if the caller may not use the verb.
        """
        needs_text = keeps_end = False
        form: TextForm = "missing"
        if line.startswith("/"):
            word = line.split(None, 1)[0]
            if self._channel.has_pty or asks_for_help(line):
                return None
            typed_verb = find_typed(line)
            if typed_verb is not None:
                verb, start = typed_verb
                if verb.text is None or verb.takes_bytes:
                    return None
                form = find_text_form(verb, line, start)
                keeps_end = verb.takes_exact_text
                if form == "marked" and keeps_end and not self._waits:
                    self._piped.warn_unused()
                    return None
                has_source = bool(verb.text_source)
                needs_text = form == "missing" and (verb.text.required or has_source)
                if not needs_text and not verb.adds_piped_text:
                    return None
                await check_may_pipe(caller, verb)
            elif find_entry(word) is not None or word[1:].lower() in self._aliases:
                return None  # an alias takes no piped text; a command made in the world does
        text = await self._piped.read(waits=needs_text or self._waits)
        if text is None:
            return None
        if keeps_end and form != "missing":
            if not text:
                return None
            raise two_texts_error()
        if keeps_end:
            # Scripts often have an empty input without meaning it: that it is one is said.
            return text if text or self._waits else None
        return text.removesuffix("\n") or None

    async def _refuse(self, refused: WorldError, line: str) -> None:
        if isinstance(refused, UnknownFlag):
            flags = " ".join((*refused.flags, *_DOOR_FLAGS))
            refused.hints = (f"It has {flags}.{refused.text_note}",)
        if self._json:
            hint = refused.hint_for(PERSON)  # who runs lines, too
            told = {"error": refused.code, "message": refused.message, "hint": hint}
            await self._print_json(told, indent=None)  # a line, as among events
            return
        view = draw_refusal(refused) if refused.span is None else draw_refusal(refused, line)
        self._channel.write_stderr(encode_plain_block(view, utf8=self._utf8, newline=self._newline))

    def _plain_text(self, result: object) -> bytes:
        """Draw a result; call it in a thread, because a text of megabytes takes seconds."""
        if self._channel.has_pty:  # a person's screen, which would wrap inside of words
            columns, _ = self._channel.size
            look = DisplayOptions(columns, MONO, self._utf8, plain=True)
            return render_block(draw_result(result), look)
        return encode_plain_lines(draw_lines(result), utf8=self._utf8, newline=self._newline)

    async def _print_json(self, value: Any, indent: int | None = 2) -> None:
        # In a thread: a tool result may be megabytes, and every character is checked.
        await self._print(await asyncio.to_thread(self._json_text, value, indent))

    def _json_text(self, value: Any, indent: int | None) -> bytes:
        text = json.dumps(value, ensure_ascii=not self._utf8, indent=indent)
        # JSON escapes C0 itself; escape other non-printable characters in the same way.
        printable = "".join(
            c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text
        )
        return encode_plain_block(
            block(*printable.split("\n")), utf8=self._utf8, newline=self._newline
        )

    async def _print_file(self, download: FileDownload) -> None:
        with await asyncio.to_thread(download.blob.open, "rb") as blob:
            while part := await asyncio.to_thread(blob.read, READ_BYTES):
                await self._print(part)

    async def _print(self, text: bytes) -> None:
        """Write all of the text, at the speed at which the client reads."""
        for start in range(0, len(text), WRITE_CHUNK_BYTES):
            await self._writable.wait()
            self._channel.write(text[start : start + WRITE_CHUNK_BYTES])

    @property
    def _aliases(self) -> dict[str, str]:
        return self._context.require_agent(self._agent_id).aliases

    @property
    def _newline(self) -> str:
        return "\r\n" if self._channel.has_pty else "\n"
