"""Processes in sandboxes that run the tools of a toolset, one for each call."""

from __future__ import annotations

import asyncio
import compileall
import importlib.util
import json
import sys
from asyncio import StreamReader
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from sshwarma.common.json_guard import JsonTooLarge, load_json
from sshwarma.common.limits import (
    MAX_TOOLSET_OUTPUT_BYTES,
    MAX_TOOLSET_RESULT_BYTES,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.units import KIB, MIB
from sshwarma.sandbox.host import SandboxHost, SandboxUser
from sshwarma.sandbox.profile import WORKSPACE_PATH, Profile
from sshwarma.sandbox.run import Sandbox, SandboxError, SandboxProgram
from sshwarma.sandbox.spares import SpareSandboxes
from sshwarma.toolsets.bundle import Bundle
from sshwarma.world.errors import Unavailable
from sshwarma.world.resources import resource_dir

TOOLSET_PATH: Final = "/ts"
"""Where the files of a toolset are inside."""

_LIBRARIES: Final = (
    "pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection",
    "docstring_parser",
)  # fmt: skip
"""Packages that the worker imports; tools may use them, too."""

_READ_BYTES: Final = 64 * KIB


class WorkerError(Exception):
    """A worker that did not answer. Its message is a clause."""


@dataclass(frozen=True, slots=True)
class WorkerTool:
    """A tool as its worker finds it: module, function, and the manifest's schema."""

    id: str
    module: str
    path: str
    function: str
    input_schema: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """The answer of a worker: its result, and the lines that its tools printed."""

    result: dict[str, Any]
    printed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolsetCode:
    """A toolset that a worker can run.

    `mounts` are its folders by their path inside.
    """

    id: str
    version: str
    mounts: Mapping[str, Path]
    tools: tuple[WorkerTool, ...]


class Workers:
    """Starts workers, each for one call, and has the next ready before it comes."""

    def __init__(self, host: SandboxHost) -> None:
        """Start them in the sandboxes of a host."""
        self._host = host
        self.spares = SpareSandboxes(host)

    async def ask(
        self,
        code: ToolsetCode,
        workspace: Path | None,
        room_id: str,
        method: str,
        params: Mapping[str, Any],
        seconds: float,
        user: SandboxUser,
    ) -> WorkerAnswer:
        """Send one request to a worker, and end it with all that it has started.

        Args:
            code: the toolset.
            workspace: the folder that tools work in, for a call that has its slot; None for an
                empty one that is thrown away.
            room_id: of the room, as tools see it.
            method: of the request: tools/list or tools/call.
            params: of the request.
            seconds: until it must have answered, once it runs.
            user: for whom it runs.

        Raises:
            SandboxError: if there is no sandbox.
            WorkerError: if it answers with an error, or not at all.
            TimeoutError: if it takes longer.
        """
        lines = _write_request(code, room_id, method, params)
        profile = Profile(workspace, mounts={**code.mounts, **list_mounts()})
        command = [_python(), "-I", "-S", "/w/worker.py"]
        program = SandboxProgram(profile, command, cpu_seconds=2 * int(seconds), has_input=True)
        take, has_slot = self.spares.take, workspace is not None
        async with self._host.run(program, user, take_spare=take, has_slot=has_slot) as sandbox:
            answer = await _exchange(sandbox, lines, seconds)
        if workspace is not None:
            self.spares.prepare(program)
        return answer


async def _exchange(sandbox: Sandbox, lines: bytes, seconds: float) -> WorkerAnswer:
    """Send a request and read the answer; then nothing in the sandbox runs any more."""
    process = sandbox.process
    assert process.stdout and process.stderr  # noqa: S101 - for mypy
    async with asyncio.timeout(seconds):
        printing = asyncio.create_task(_read_printed(process.stderr))
        try:
            await _send(sandbox.stdin, lines)
            line = await _read_line(process.stdout)
            if not line.endswith(b"\n"):
                ending = await sandbox.wait()
                said = await printing
                raise WorkerError(_describe_end(ending.status, ending.excess, said))
            await sandbox.stop()  # no tool does anything more, and all it printed is there
            printed = await printing
        finally:
            printing.cancel()
            await asyncio.gather(printing, return_exceptions=True)
    return WorkerAnswer(read_answer(line), tuple(printed))


def describe_toolset(
    toolset_id: str,
    version: str,
    tools: Sequence[WorkerTool],
    room_id: str = "",
    *,
    folder: str = TOOLSET_PATH,
    workspace: str = WORKSPACE_PATH,
) -> dict[str, Any]:
    """Return the configuration of a worker."""
    return {
        "toolset": folder,
        "workspace": workspace,
        "toolset_id": toolset_id,
        "chat_id": room_id,
        "version": version,
        "tools": [
            {"id": tool.id, "module": tool.module, "path": tool.path, "function": tool.function,
             "input_schema": tool.input_schema}
            for tool in tools
        ],
    }  # fmt: skip


def list_tools(bundle: Bundle) -> tuple[WorkerTool, ...]:
    """Return the tools of a bundle as a worker finds them."""
    points = bundle.entrypoints
    return tuple(
        WorkerTool(
            tool.id,
            points[tool.id].module,
            points[tool.id].path,
            points[tool.id].function,
            tool.input_schema,
        )
        for tool in bundle.manifest.tools
    )


def _write_request(
    code: ToolsetCode, room_id: str, method: str, params: Mapping[str, Any]
) -> bytes:
    """Return what a worker reads: a line that describes the toolset, and the request."""
    config = describe_toolset(code.id, code.version, code.tools, room_id)
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return "".join(f"{json.dumps(one)}\n" for one in (config, request)).encode()


async def _send(stream: asyncio.StreamWriter, data: bytes) -> None:
    try:
        stream.write(data)
        await stream.drain()
    except (BrokenPipeError, ConnectionResetError):
        return  # it has ended, which its output shows


async def _read_line(stream: StreamReader) -> bytes:
    """Read the first line; less if the stream ends before.

    Raises:
        WorkerError: if it is too long.
    """
    parts: list[bytes] = []
    size = 0
    while part := await stream.read(_READ_BYTES):
        parts.append(part)
        size += len(part)
        if b"\n" in part:
            break
        if size > MAX_TOOLSET_RESULT_BYTES:
            limit = f"{MAX_TOOLSET_RESULT_BYTES // MIB} MiB"
            raise WorkerError(with_limit("its result is too large", limit))
    line, newline, _ = b"".join(parts).partition(b"\n")
    return line + newline


async def _read_printed(stream: StreamReader) -> list[str]:
    """Read what is printed to its end, and keep the beginning."""
    kept = b""
    while part := await stream.read(_READ_BYTES):
        kept += part[: MAX_TOOLSET_OUTPUT_BYTES - len(kept)]
    return kept.decode(errors="replace").splitlines()


def _describe_end(status: int | None, excess: str, printed: Sequence[str]) -> str:
    if excess:
        return excess
    last = next((line for line in reversed(printed) if line.strip()), "")
    how = f"it ended with status {status}"
    return f"{how}: {last.strip()}" if last else how


def read_answer(line: bytes) -> dict[str, Any]:
    """Return the result of a response; nothing that a worker says is trusted.

    Raises:
        WorkerError: if it is an error, or no response.
    """
    try:
        message = load_json(line)
        if b"\\u" in line:  # perhaps a surrogate without its pair, which is no text
            json.dumps(message, ensure_ascii=False).encode()
        result = message.get("result")
        error = str(message["error"]["message"]) if result is None else ""
    except JsonTooLarge as error:
        raise WorkerError(f"its result {error}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise WorkerError("its answer is not valid") from None
    if not isinstance(result, dict):
        raise WorkerError(error or "its answer is not valid")
    return result


def _python() -> str:
    """Return the interpreter outside of the virtual environment, which is not inside."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(sys.base_prefix, "bin", name)
    return str((base if base.exists() else Path(sys.executable)).resolve())


@cache
def list_mounts() -> dict[str, Path]:
    """Return the worker and the packages that it needs, by their path inside.

    The bytecode of a package is in its folder; that of a module by itself is given, too.
    """
    mounts = {"/w": _compile_worker(resource_dir("embedded") / "toolset")}
    for name in _LIBRARIES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise WorkerError(f"the package {name} is not installed")
        origin = Path(spec.origin)
        source = origin.parent if origin.name == "__init__.py" else origin
        mounts[f"/d/{source.name}"] = source
        if source == origin and spec.cached is not None and Path(spec.cached).exists():
            mounts[f"/d/__pycache__/{Path(spec.cached).name}"] = Path(spec.cached)
    return mounts


def _compile_worker(folder: Path) -> Path:
    """Compile the modules of the worker; return their folder.

    A worker cannot do it itself. In a folder that this process may not write, they are as the
    installer left them.
    """
    compileall.compile_dir(folder, maxlevels=0, quiet=2)
    return folder


def no_sandbox_error(error: SandboxError) -> Unavailable:
    """Return the refusal of what needs a worker where no sandbox can start."""
    return Unavailable(
        f"Tools of toolsets cannot run on this server: {error.obstacle.reason}.",
        hint=error.obstacle.hint,
    )
