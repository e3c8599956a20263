"""The line of a failed program's output that says why it failed.

It is seldom the last one: npm ends with where its log is, node with its version. npm explains the
failure first, other programs last, after the lines of a traceback.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_NPM: Final = re.compile(r"npm (?:error|ERR!) ?")
_NPM_DETAIL: Final = re.compile(
    r"(?:code|errno|syscall|path|dest|cwd|command|signal) |A complete log of this run|"
    r"You can rerun the command|Log files were not written|$"
)
"""What npm adds to its explanation: fields of the error, and where to read more."""

_NOISE: Final = re.compile(
    r"Node\.js v\d|npm (?:notice|warn|WARN)\b|\s+at .|\s*File \"|\s*\^+\s*$|\s*[\]}),;]*\s*$|"
    r"\s+(?:code|errno|syscall|path|requireStack): "
)
"""Lines that explain nothing by themselves: stack frames, versions, ends of brackets."""

_FAILURE: Final = re.compile(
    r"error\b|exception\b|\bfail(?:ed|ure|s)?\b|\bfatal\b|\bpanic(?:ked)?\b|\bunable\b|"
    r"\bcan(?:'t|not)\b|\bcould not\b|\bnot found\b|\bno such\b|"
    r"\bdenied\b|\brefused\b|\bmissing\b|\binvalid\b|\bmust\b",
    re.IGNORECASE,
)


def choose_failure_line(lines: Sequence[str]) -> str:
    """Return the line that says what failed, else the last one; "" if all are empty."""
    for line in lines:
        npm = _NPM.match(line)
        if npm is not None and not _NPM_DETAIL.match(line, npm.end()):
            return line.strip()
    telling = [line for line in lines if line.strip() and not _NOISE.match(line)]
    failures = [line for line in telling if _FAILURE.search(line)]
    spoken = failures or telling or [line for line in lines if line.strip()]
    return spoken[-1].strip() if spoken else ""
