"""Errors of a Lua run, as messages for the author of the script.

LuaError               the base
├── LuaScriptError     the script's own error: runtime, syntax, a result that cannot be converted
├── LuaTimeout         it ran, or waited, for too long
├── LuaOutOfMemory     it exceeded its memory limit
├── LuaOutputTooLarge  its result exceeds the limit
├── LuaWorkerError     its process ended, or could not start
├── LuaInvalidInput    its input is not data, or too large
└── LuaQueueFull       too many runs are waiting
"""

from __future__ import annotations


class LuaError(Exception):
    """An error with its place: `script` and `line`, if known; line 0 is unknown."""

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
