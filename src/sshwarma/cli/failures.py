"""Errors that a command reports in a sentence; others keep their traceback."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Final

from sshwarma.common.os_errors import describe_os_error
from sshwarma.common.reported_error import ReportedError

PIPING: Final = frozenset({"keys", "recover", "backup", "restore"})
"""Commands that take - in place of a file."""

STANDARD_STREAM: Final = "-"
"""What stands for standard input or output."""

OTHER_PATHS: Final = ("--config", "--data-dir")
"""Options with a path that no - can stand for."""


def asks_for_json(words: Sequence[str]) -> bool:
    """Return whether the words of a command line ask for JSON."""
    return "--json" in takewhile(lambda word: word != "--", words)


def print_json_failure(words: Sequence[str], code: str, message: str, hint: str = "") -> None:
    """Print why a command failed as JSON, on standard output.

    A backup that goes there is not followed by something else: then it is standard error.
    """
    is_backup = "backup" in words and STANDARD_STREAM in words
    described = {"error": code, "message": message, "hint": hint}
    print(json.dumps(described, indent=2), file=sys.stderr if is_backup else sys.stdout, flush=True)


def is_reported(error: Exception) -> bool:
    """Return whether the message of an error is for the operator."""
    return isinstance(error, (ReportedError, OSError)) or _is_full_disk(error)


def _is_full_disk(error: Exception) -> bool:
    """Return whether SQLite has found the disk full, by itself or through a library."""
    cause = getattr(error, "orig", None) or error
    return getattr(cause, "sqlite_errorname", "") == "SQLITE_FULL"


def describe_failure(error: Exception, words: Sequence[str] = ()) -> str:
    """Return the message of an error, without the number of a system error.

    `words` are those of the command line: in some commands, a pipe can take the place of a file.
    """
    if _is_full_disk(error):
        return "The disk of the data directory is full. Make room, then run it again."
    if not isinstance(error, OSError):
        return str(error)
    text = describe_os_error(error)
    if isinstance(error, PermissionError) and _is_of_pipeable_file(str(error.filename), words):
        from sshwarma.common.user_names import name_user

        user = name_user(os.geteuid())
        return f"{text} You are {user}. Pipe it instead: - is standard input or output."
    return text


def _is_of_pipeable_file(filename: str, words: Sequence[str]) -> bool:
    """Return whether - can take the place of a file that this process was given.

    `filename` is that file, or the directory in which it would be made.
    """
    if PIPING.isdisjoint(words[:1]) or STANDARD_STREAM in words:
        return False
    files = [word for before, word in pairwise(["", *words]) if before not in OTHER_PATHS]
    return any(filename in (file, str(Path(file).absolute().parent)) for file in files)
