"""The process that runs Lua: frames in on stdin, frames out on stdout, a fresh state for each run.

Started by the server as `python -m sshwarma.wrap.worker`. It imports no more of the program than
`protocol` and `confine`, holds no secret, and gives up what it can before it reads a script.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

from lupa import lua54  # type: ignore[import-untyped]

from sshwarma.wrap import protocol
from sshwarma.wrap.confine import allow_processor, confine, give_back_memory
from sshwarma.wrap.protocol import Limits

ENCODE: Final = Path(__file__).with_name("encode.lua").read_text("utf-8")
SANDBOX: Final = Path(__file__).with_name("sandbox.lua").read_text("utf-8")
SLACK: Final = 16 * protocol.MIB
"""Bytes above the limit that an answer may take on its way in: a push from Python that finds no
memory would abort the process."""
LARGE: Final = 16 * protocol.MIB
"""Bytes of a state, above which what it leaves is given back to the system."""
REMOVED: Final = ("python", "io", "os", "package", "require", "dofile", "loadfile", "warn")


class State:
    """A fresh Lua state with the sandbox in it, for one run."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lua = lua54.LuaRuntime(
            register_eval=False,
            register_builtins=False,
            attribute_filter=_nothing,
            unpack_returned_tuples=True,
            overflow_handler=_as_float,
            max_memory=0,
        )
        wire = self._lua.execute(ENCODE, name="=encode")
        driver = self._lua.execute(SANDBOX, wire, name="=sandbox")
        self._prepare, self._step = driver["prepare"], driver["step"]
        self._inbox, self._null, self._empty = driver["inbox"], driver["null"], driver["empty"]
        names = self._lua.globals()
        for name in REMOVED:
            names[name] = None

    @property
    def memory(self) -> int:
        """Bytes the state holds now."""
        return int(self._lua.get_memory_used(total=True))

    def prepare(self, scripts: list[tuple[str, str]], entry: str, snapshot: Any) -> None:
        """All that the run is given. The limit on memory holds from here on."""
        limits = self._limits
        self._prepare(
            self._lua.table_from([name for name, _ in scripts]),
            self._lua.table_from([source for _, source in scripts]),
            entry,
            self._into(snapshot),
            # One that can be interrupted learns its line; what cannot be, the server kills.
            limits.seconds * limits.early,
            limits.output,
            limits.log,
            limits.calls,
        )
        self._lua.set_max_memory(limits.lua_memory, total=True)

    def step(self) -> tuple[str, str]:
        """Run until there is something to say: `call`, `value` or `error`, and its JSON."""
        try:
            kind, body = self._step()
        except lua54.LuaMemoryError:
            kind, body = "error", json.dumps({"kind": "memory"})
        return kind, body

    def answer(self, ok: bool, value: Any) -> None:
        """What the call that step() spoke of has given."""
        self._lua.set_max_memory(self._limits.lua_memory + SLACK, total=True)
        self._inbox[1], self._inbox[2] = ok, self._into(value)
        self._lua.set_max_memory(self._limits.lua_memory, total=True)

    def _into(self, value: Any) -> Any:
        if not isinstance(value, dict | list):
            return value
        return self._lua.table_from(self._marked(value), recursive=True)

    def _marked(self, value: Any) -> Any:
        """With `null` for each None in a list, and empty tables that know they are objects."""
        if isinstance(value, dict):
            if not value:
                return self._empty()
            for key, inner in value.items():
                if type(inner) in _CONTAINERS:
                    value[key] = self._marked(inner)
        elif not _SPECIAL.isdisjoint(map(type, value)):
            for place, inner in enumerate(value):
                if inner is None:
                    value[place] = self._null
                elif type(inner) in _CONTAINERS:
                    value[place] = self._marked(inner)
        return value


_CONTAINERS: Final = frozenset((dict, list))
_SPECIAL: Final = frozenset((dict, list, type(None)))


def _nothing(thing: object, name: object, setting: bool) -> NoReturn:
    raise AttributeError("not from Lua")


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def receive() -> tuple[bytes, bytes] | None:
    """The next frame's kind and body; None when the server has gone."""
    head = _exactly(protocol.HEADER)
    if head is None:
        return None
    body = _exactly(int.from_bytes(head[: protocol.LENGTH], "big") - 1)
    return None if body is None else (head[protocol.LENGTH :], body)


def send(kind: bytes, body: bytes) -> None:
    left = memoryview(protocol.frame(kind, body))
    while left:
        left = left[os.write(1, left) :]


def _exactly(size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(0, min(size - len(parts), protocol.MIB))
        if not part:
            return None
        parts += part
    return bytes(parts)


def run(state: State, body: bytes) -> tuple[bytes, bytes] | None:
    """Carry out one run; its last frame, or None when the server has gone."""
    asked = json.loads(body)
    state.prepare(asked["scripts"], asked["entry"], asked["snapshot"])
    del asked
    while True:
        kind, said = state.step()
        if kind == "value":
            return protocol.VALUE, said.encode()
        if kind == "error":
            return protocol.ERROR, said.encode()
        send(protocol.CALL, said.encode())
        answered = receive()
        if answered is None:
            return None
        answer = json.loads(answered[1])
        state.answer(answer["ok"], answer["value"])


def serve() -> None:
    """Until the server closes stdin."""
    setup = receive()
    if setup is None:
        return
    limits = Limits(**json.loads(setup[1]))
    state: State | None = State(limits)
    confine(limits.memory)
    send(protocol.READY, b"")
    while (asked := receive()) is not None:
        allow_processor(limits.seconds)
        state = state or State(limits)
        last = run(state, asked[1])
        large = state.memory > LARGE
        state = None  # closed before the answer, so that the next run does not pay for it
        if large:
            give_back_memory()
        if last is None:
            return
        send(*last)
        state = State(limits)


def main() -> NoReturn:
    try:
        serve()
    except MemoryError:
        os._exit(protocol.OUT_OF_MEMORY)
    except OSError:
        os._exit(0)  # the server has gone
    except BaseException as error:  # noqa: BLE001 - said on stderr, for the server's log
        sys.stderr.write(f"{type(error).__name__}: {error}\n"[:1000])
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
