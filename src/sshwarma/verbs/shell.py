"""The verb `/shell`: a command on the files of the room, in a sandbox."""

from __future__ import annotations

import asyncio
import time
from asyncio import StreamReader
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from sshwarma.common.limits import (
    DEFAULT_SANDBOX_SECONDS,
    MAX_COMMAND_CHARACTERS,
    MAX_COMMAND_OUTPUT_BYTES,
    MAX_NAMED_FILES,
    MAX_SANDBOX_SECONDS,
)
from sshwarma.common.shorten import join_with_rest, shorten_name, shorten_text
from sshwarma.common.units import KIB
from sshwarma.sandbox.profile import WORKSPACE_PATH, Profile
from sshwarma.sandbox.run import Ending, SandboxError, SandboxProgram
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, Line, block, line, text_lines
from sshwarma.tools.call_checks import check_after_wait
from sshwarma.verbs.arguments import Arg
from sshwarma.verbs.file import workspaces_of
from sshwarma.verbs.file_arguments import FilePath, complete_files
from sshwarma.verbs.registry import verb
from sshwarma.verbs.rights import FILES_RIGHT
from sshwarma.verbs.views import view
from sshwarma.workspaces.paths import parse_path
from sshwarma.workspaces.runs import RunFiles, describe_files, sandbox_user
from sshwarma.workspaces.tree import list_folders
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Unavailable, too_long_error, unknown_name_error
from sshwarma.world.reader import next_call

RunSeconds: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_SANDBOX_SECONDS)]

CommandText: TypeAlias = Annotated[
    str, Arg("text", rest=True, complete=complete_files, is_shell=True)
]
"""A command, whose words may be paths in the workspace of the room."""

_SHELL: Final = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"

_READ_BYTES: Final = 64 * KIB

PROGRESS_SECONDS: Final = 0.5
"""Seconds between two reports of the newest line of the output."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The output of a command, and how it ended.

    Attributes:
        status: its exit status, as a shell has it; None if it was ended.
        output: what it printed, to standard output and error as it came.
        left_out: bytes from the middle of the output that are not in it.
        ended: why it was ended, as a clause; "" if it ended by itself.
        changed: paths of files that it changed, with what was done to each.
        notes: what else happened to the files, as sentences.
    """

    command: str
    status: int | None
    output: str
    left_out: int
    seconds: float
    ended: str
    changed: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def is_failed(self) -> bool:
        """Whether the command failed."""
        return self.status != 0


@view(CommandResult)
def draw_command_result(result: CommandResult) -> Block:
    """Draw the output, then how the command ended and what it changed."""
    how = f"exit status {result.status}" if result.status is not None else result.ended
    facts = [how, f"{result.seconds:.1f} s"]
    if result.changed:
        facts.append(join_with_rest(list(result.changed), MAX_NAMED_FILES))
    output = _keep_last_states(result.output).rstrip("\n")
    lines: list[Line] = [*text_lines(output)] if output.strip() else []
    style = "dim" if result.status == 0 else "warn"
    return block(
        *lines,
        line((style, f"({', '.join(facts)})")),
        *(line(("warn", note)) for note in result.notes),
    )


@verb(
    "shell",
    section="Building",
    needs=Right.TALK,
    also_needs=(FILES_RIGHT,),
    tool="run_command",
    namespace="workspace",
    needs_approval=True,
    times_out_itself=True,
    adds_piped_text=False,
    examples=("/shell make test", "/shell --timeout 300 python3 train.py"),
)
async def shell(
    caller: Caller,
    command: CommandText,
    *,
    timeout: RunSeconds = DEFAULT_SANDBOX_SECONDS,  # noqa: ASYNC109 - a setting of the command
    cwd: FilePath | None = None,
) -> CommandResult:
    """Run a command of bash on the files of the room, in a sandbox.

    It sees the files of the room and the programs of the system, and nothing else of the machine;
    it has no network and no input. What it changes of the files is kept as one version. When it
    ends, everything that it has started ends, too.

    Args:
        command: the command, as bash reads it.
        timeout: seconds after which it is ended.
        cwd: the folder where it starts (default: the top of the files).
    """
    if len(command) > MAX_COMMAND_CHARACTERS:
        raise too_long_error("command", len(command), MAX_COMMAND_CHARACTERS)
    services = services_of(caller)
    if (obstacle := services.runs.sandbox.obstacle) is not None:
        raise Unavailable(
            f"Commands cannot be run on this server: {obstacle.reason}.",
            hint=obstacle.hint,
        )
    cwd = await _find_folder(caller, cwd)
    if _is_in_a_call(caller):  # people stop the call
        return await _run(caller, command, cwd, timeout)
    caller.require_scope(TokenScope.APPROVE)  # a program is asked, as it calls the tool
    shown = f"`{shorten_text(command)}`"
    begin = caller.world.open_requests.begin
    with begin(caller.agent.id, room_id=caller.room_id, work=shown) as request:
        try:
            result = await _run(caller, command, cwd, timeout)
            request.end_work()
        except asyncio.CancelledError:
            if request.stopped_by:
                await asyncio.shield(
                    _tell_room(caller, f"ran {shown}: stopped by {request.stopped_by}")
                )
            raise
        await _tell_room(caller, _describe_result(result))
    return result


def _is_in_a_call(caller: Caller) -> bool:
    """Return whether a tool runs the command, whose call is a row already."""
    return caller.call_stack is not None and caller.call_stack.row_id is not None


async def _run(caller: Caller, command: str, cwd: str | None, seconds: int) -> CommandResult:
    """Run a command when its turn has come."""
    services = services_of(caller)
    start = time.monotonic()
    output = _Output(None if caller.door == "exec" else caller.on_progress)

    async def work(folder: Path) -> Ending:
        return await _run_in_sandbox(caller, folder, command, cwd, seconds, output)

    async def check() -> None:
        await check_after_wait(caller)
        await FILES_RIGHT.check(caller, {})

    try:
        ending, files = await services.runs.run(caller, work, check)
    except SandboxError as error:
        raise Unavailable(
            f"The sandbox failed: {error.obstacle.reason}.", hint=error.obstacle.hint
        ) from error
    if caller.call_stack is not None:
        caller.call_stack.run.changes = ""  # the result says it
    return CommandResult(
        command, ending.status, output.text, output.left_out, time.monotonic() - start,
        ending.excess, _describe_changes(files), describe_files(files),
    )  # fmt: skip


async def _find_folder(caller: Caller, typed: str | None) -> str | None:
    """Return the path of a folder of the room; None for the top of its files.

    Raises:
        NotFound: if there is no such folder.
    """
    if typed is None or typed in (".", "./", "", "/", WORKSPACE_PATH):
        return None
    cwd = parse_path(typed.removeprefix(f"{WORKSPACE_PATH}/"), "cwd")
    _, tree = await workspaces_of(caller).read_tree(caller.room_id)
    folders = list_folders(tree)
    if cwd not in folders:
        hint = next_call("{} lists them.", "files")
        raise unknown_name_error("folder", cwd, known=folders, hint=hint)
    return cwd


async def _run_in_sandbox(
    caller: Caller, folder: Path, command: str, cwd: str | None, seconds: int, output: _Output
) -> Ending:
    """Run the command; it has ended, with all that it started, when this returns."""
    name = caller.agent.name
    environment = {
        "GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": f"{name}@sshwarma",
        "GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": f"{name}@sshwarma",
    }  # fmt: skip
    profile = Profile(
        folder,
        directory=f"{WORKSPACE_PATH}/{cwd}" if cwd else WORKSPACE_PATH,
        environment=environment,
    )
    words = [_SHELL, "-c", command]
    program = SandboxProgram(profile, words, cpu_seconds=2 * seconds, merge_errors=True)
    host, user = services_of(caller).runs.sandbox, sandbox_user(caller)
    async with host.run(program, user, has_slot=True) as sandbox:
        assert sandbox.process.stdout is not None  # noqa: S101 - it has a pipe
        try:
            async with asyncio.timeout(seconds):
                await output.read(sandbox.process.stdout)
                return await sandbox.wait()
        except TimeoutError:
            return Ending(None, f"ended after {seconds} s")


class _Output:
    """The output of a command: its beginning and end are kept."""

    def __init__(self, report: Callable[[str], None] | None) -> None:
        self._report = report
        self._reported_at = 0.0
        self._head = b""
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.left_out = 0

    async def read(self, stream: StreamReader) -> None:
        """Read to the end."""
        half = MAX_COMMAND_OUTPUT_BYTES // 2
        while part := await stream.read(_READ_BYTES):
            self._report_line(part)
            room = half - len(self._head)
            self._head += part[:room]
            if rest := part[room:] if room > 0 else part:
                self._tail.append(rest)
                self._tail_bytes += len(rest)
            while self._tail_bytes > half:
                excess = self._tail_bytes - half
                oldest = self._tail.popleft()
                if len(oldest) > excess:
                    self._tail.appendleft(oldest[excess:])
                cut = min(excess, len(oldest))
                self._tail_bytes -= cut
                self.left_out += cut

    def _report_line(self, part: bytes) -> None:
        now = time.monotonic()
        if self._report is None or now - self._reported_at < PROGRESS_SECONDS:
            return
        lines = part.decode(errors="replace").split("\n")
        if text := next((text.strip() for text in reversed(lines) if text.strip()), ""):
            self._reported_at = now
            self._report(shorten_text(text))

    @property
    def text(self) -> str:
        """The output; where the middle is left out, a line says how much."""
        tail = b"".join(self._tail)
        cut = f"\n[… {self.left_out:,} bytes left out …]\n".encode() if self.left_out else b""
        return (self._head + cut + tail).decode(errors="replace")


def _keep_last_states(text: str) -> str:
    """Return an output as a terminal leaves it: lines that are written again."""
    shown = []
    for text_line in text.split("\n"):
        *before, kept = text_line.split("\r")
        for part in reversed(before):
            kept += part[len(kept) :]
        shown.append(kept)
    return "\n".join(shown)


def _describe_changes(files: RunFiles) -> tuple[str, ...]:
    """Return what was done at each path, but for folders that are empty no longer."""
    described = []
    for path, entry in files.changes.items():
        if entry is not None:
            done = "left the empty folder" if entry.is_folder else "wrote"
            described.append(f"{done} {shorten_name(path)}")
        elif files.kinds[path] == "removed":
            described.append(f"removed {shorten_name(path)}")
    return tuple(described)


def _describe_result(result: CommandResult) -> str:
    how = f"exit status {result.status}" if result.status is not None else result.ended
    changed = f", {join_with_rest(list(result.changed), MAX_NAMED_FILES)}" if result.changed else ""
    return f"ran `{shorten_text(result.command)}`: {how}{changed}"


async def _tell_room(caller: Caller, text: str) -> None:
    """Tell the room of a command of a person."""
    await caller.change(lambda tx: caller.append_notice(tx, text))
