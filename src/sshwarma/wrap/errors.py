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


class LuaScriptError(LuaError):
    """The script's own error: syntax, runtime, a result that cannot be converted."""


class LuaTimeout(LuaError):
    """The script ran, or waited, for too long."""


class LuaOutOfMemory(LuaError):
    """The script exceeded its memory limit."""


class LuaOutputTooLarge(LuaError):
    """The script's result exceeds the limit."""


class LuaWorkerError(LuaError):
    """The script's process ended, or could not start."""


class LuaInvalidInput(LuaError):
    """The input of the script is not data, or too large."""


class LuaQueueFull(LuaError):
    """Too many runs are waiting."""
