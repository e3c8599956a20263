"""The process that runs Lua: frames in on stdin, frames out on stdout.

It makes a new state for each run. `WorkerProcess` starts it as an isolated interpreter, with
the program of `process`. It imports only `protocol`, `confine` and constants of `common` from the
program, holds no secret, and drops its rights before it reads a script.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Final, NoReturn

from lupa import lua54  # type: ignore[import-untyped]

from sshwarma.common.confine import confine_process, extend_cpu_limit, release_free_memory
from sshwarma.common.units import MIB
from sshwarma.wrap import protocol
from sshwarma.wrap.protocol import LuaLimits


def _read_source(name: str) -> str:
    # Not by pathlib, whose import takes a tenth of the start.
    folder = os.path.dirname(__file__)  # noqa: PTH120
    with open(f"{folder}/{name}", encoding="utf-8") as file:  # noqa: PTH123
        return file.read()


ENCODE_SOURCE: Final = _read_source("encode.lua")
SANDBOX_SOURCE: Final = _read_source("sandbox.lua")
ANSWER_SLACK_BYTES: Final = 16 * MIB
"""Bytes above the limit that an answer may take while it is pushed.

A push from Python that finds no memory would abort the process.
"""
LARGE_STATE_BYTES: Final = 16 * MIB
"""Bytes of a state, above which its memory is returned to the system."""
REMOVED_GLOBALS: Final = ("python", "io", "os", "package", "require", "dofile", "loadfile", "warn")


class LuaState:
    """A new Lua state with the sandbox in it, for one run."""

    def __init__(self, limits: LuaLimits) -> None:
        self._limits = limits
        self._lua = lua54.LuaRuntime(
            register_eval=False,
            register_builtins=False,
            attribute_filter=_deny_attribute,
            unpack_returned_tuples=True,
            overflow_handler=_convert_overflow,
            max_memory=0,
        )
        wire = self._lua.execute(ENCODE_SOURCE, name="=encode")
        sandbox = self._lua.execute(SANDBOX_SOURCE, wire, name="=sandbox")
        self._prepare, self._step = sandbox["prepare"], sandbox["step"]
        self._inbox, self._null, self._empty = sandbox["inbox"], sandbox["null"], sandbox["empty"]
        names = self._lua.globals()
        for name in REMOVED_GLOBALS:
            names[name] = None

    @property
    def memory(self) -> int:
        """Bytes the state holds now."""
        return int(self._lua.get_memory_used(total=True))

    def prepare_run(self, scripts: list[tuple[str, str]], entry: str, snapshot: Any) -> None:
        """Load scripts and snapshot. From here on the memory limit applies."""
        limits = self._limits
        self._prepare(
            self._lua.table_from([name for name, _ in scripts]),
            self._lua.table_from([source for _, source in scripts]),
            entry,
            self._to_lua(snapshot),
            # An interruptible script learns its line; the server kills the others.
            limits.run_seconds * limits.interrupt_fraction,
            limits.max_output_bytes,
            limits.max_log_bytes,
            limits.max_calls,
        )
        self._lua.set_max_memory(limits.max_lua_bytes, total=True)

    def step(self) -> tuple[str, str]:
        """Run until the next message: `call`, `value` or `error`, and its JSON."""
        try:
            kind, body = self._step()
        except lua54.LuaMemoryError:
            kind, body = "error", json.dumps({"kind": "memory"})
        return kind, body

    def answer(self, ok: bool, value: Any) -> None:
        """Pass in the answer to the call that step() returned."""
        self._lua.set_max_memory(self._limits.max_lua_bytes + ANSWER_SLACK_BYTES, total=True)
        self._inbox[1], self._inbox[2] = ok, self._to_lua(value)
        self._lua.set_max_memory(self._limits.max_lua_bytes, total=True)

    def _to_lua(self, value: Any) -> Any:
        if not isinstance(value, dict | list):
            return value
        return self._lua.table_from(self._mark_nulls(value), recursive=True)

    def _mark_nulls(self, value: Any) -> Any:
        """Replace each None in a list by `null`, and each empty dict by a marked table."""
        if isinstance(value, dict):
            if not value:
                return self._empty()
            for key, inner in value.items():
                if type(inner) in _CONTAINER_TYPES:
                    value[key] = self._mark_nulls(inner)
        elif not _MARKED_TYPES.isdisjoint(map(type, value)):
            for place, inner in enumerate(value):
                if inner is None:
                    value[place] = self._null
                elif type(inner) in _CONTAINER_TYPES:
                    value[place] = self._mark_nulls(inner)
        return value


_CONTAINER_TYPES: Final = frozenset((dict, list))
_MARKED_TYPES: Final = frozenset((dict, list, type(None)))


def _deny_attribute(thing: object, name: object, setting: bool) -> NoReturn:
    raise AttributeError("not from Lua")


def _convert_overflow(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def receive_frame() -> tuple[bytes, bytes] | None:
    """Return the next frame's kind and body; None if the server closed the stream."""
    head = _read_exactly(protocol.HEADER_BYTES)
    if head is None:
        return None
    body = _read_exactly(int.from_bytes(head[: protocol.LENGTH_BYTES], "big") - 1)
    return None if body is None else (head[protocol.LENGTH_BYTES :], body)


def send_frame(kind: bytes, body: bytes) -> None:
    """Write a frame to stdout whole."""
    view = memoryview(protocol.encode_frame(kind, body))
    while view:
        view = view[os.write(1, view) :]


def _read_exactly(size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        chunk = os.read(0, min(size - len(data), MIB))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def run_script(state: LuaState, body: bytes) -> tuple[bytes, bytes] | None:
    """Execute one run; return its last frame, None if the server closed the stream."""
    request = json.loads(body)
    state.prepare_run(request["scripts"], request["entry"], request["snapshot"])
    del request
    while True:
        kind, payload = state.step()
        if kind == "value":
            return protocol.VALUE, payload.encode()
        if kind == "error":
            return protocol.ERROR, payload.encode()
        send_frame(protocol.CALL, payload.encode())
        frame = receive_frame()
        if frame is None:
            return None
        answer = json.loads(frame[1])
        state.answer(answer["ok"], answer["value"])


def serve_requests() -> None:
    """Serve runs until the server closes stdin."""
    setup = receive_frame()
    if setup is None:
        return
    limits = LuaLimits(**json.loads(setup[1]))
    state: LuaState | None = LuaState(limits)
    confine_process(limits.max_memory_bytes)
    send_frame(protocol.READY, b"")
    while (frame := receive_frame()) is not None:
        extend_cpu_limit(limits.run_seconds)
        state = state or LuaState(limits)
        reply = run_script(state, frame[1])
        large = state.memory > LARGE_STATE_BYTES
        state = None  # closed before the answer, so that the next run does not pay for it
        if large:
            release_free_memory()
        if reply is None:
            return
        send_frame(*reply)
        state = LuaState(limits)


def main() -> NoReturn:
    """Serve requests until the server closes stdin."""
    try:
        serve_requests()
    except MemoryError:
        os._exit(protocol.OUT_OF_MEMORY_STATUS)
    except OSError:
        os._exit(0)  # the server has gone
    except BaseException as error:  # noqa: BLE001 - written to stderr, for the server's log
        sys.stderr.write(f"{type(error).__name__}: {error}\n"[:1000])
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)
