"""How a run of Lua can fail, in words for the author of the script.

LuaError           the base
├── LuaFailed      the script itself: an error, a syntax error, a value that cannot be given back
├── LuaTimeout     it ran, or waited, for too long
├── LuaMemory      it wanted more memory than it may have
├── LuaOutput      it gave more back than it may
├── LuaCrashed     its process ended, or could not start
├── LuaInput       what it was to be given is not data, or too much
└── LuaBusy        too many runs are waiting already
"""

from __future__ import annotations


class LuaError(Exception):
    """`script` and `line` say where, if that is known: line 0 is not known."""

    def __init__(self, message: str, *, script: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.script = script
        self.line = line

    def __str__(self) -> str:
        return f"{self.script}:{self.line}: {self.message}" if self.line else self.message


class LuaScriptError(LuaError): ...


class LuaTimeout(LuaError): ...


class LuaOutOfMemory(LuaError): ...


class LuaOutputTooLarge(LuaError): ...


class LuaWorkerError(LuaError): ...


class LuaInvalidInput(LuaError): ...


class LuaQueueFull(LuaError): ...
