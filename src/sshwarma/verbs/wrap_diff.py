"""How the next request to a model differs from the last one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from sshwarma.common.limits import MAX_DIFFED_REQUEST_LINES, MAX_REQUEST_DIFF_LINES
from sshwarma.common.line_diff import format_unified_diff
from sshwarma.common.shared_start import count_shared
from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.verbs.views import format_clock, view
from sshwarma.wrap.tokens import estimate_tokens

CACHED_FIELDS: Final = (
    "tools", "system", "instructions", "systemInstruction", "system_instruction",
    "messages", "contents", "input",
)  # fmt: skip
"""Fields of a request, by any provider, in the order in which its cache compares them."""

CONTEXT_LINES: Final = 2
"""Equal lines around a change."""


@dataclass(frozen=True, slots=True)
class RequestDiff:
    """How the request that a model would be sent now differs from the last one.

    The equal start is counted in tools, instructions and messages, in that order.

    Attributes:
        sent_at: when the last one was sent, in Unix milliseconds.
        equal_characters: characters of the equal start, in JSON.
        equal_tokens: about the same in tokens.
        characters: those of the request now; `last_characters`: of the last one.
        lines: a unified diff of both as indented JSON, in which a line of text is a line.
        is_cut: whether the diff has more lines, or the requests have too many to be compared.
    """

    model: str
    sent_at: int
    equal_characters: int
    equal_tokens: int
    characters: int
    last_characters: int
    lines: tuple[str, ...]
    is_cut: bool


@view(RequestDiff)
def draw_request_diff(diff: RequestDiff) -> Block:
    """Draw how much of the beginning is equal, and the changed lines."""
    sent = format_clock(diff.sent_at)
    equal = f"{diff.equal_characters} characters, about {diff.equal_tokens} tokens"
    lines: list[Line] = [
        line(("heading", f"What {diff.model} was sent at {sent}, and would be sent now")),
        line(("dim", f"Of the beginning, {equal} are equal; now it has {diff.characters}.")),
    ]
    styles = {"+": "ok", "-": "error", "@": "dim"}
    lines += [line((styles.get(text[:1], ""), text)) for text in diff.lines]
    if diff.is_cut:
        lines.append(line(("warn", "There are more changes: request and last show all.")))
    elif not diff.lines:
        lines.append(line(("dim", "They are equal.")))
    return block(*lines)


def compare_requests(
    model: str, sent_at: int, last: Mapping[str, Any], now: Mapping[str, Any]
) -> RequestDiff:
    """Return how a request differs from the last one. Takes long for megabytes."""
    old, new = _write_cached(last), _write_cached(now)
    equal = count_shared(old, new)
    old_lines, new_lines = _write_lines(last), _write_lines(now)
    is_cut = max(len(old_lines), len(new_lines)) > MAX_DIFFED_REQUEST_LINES
    lines: list[str] = []
    if not is_cut:
        diff = format_unified_diff(old_lines, new_lines, CONTEXT_LINES)
        lines = list(islice(diff, MAX_REQUEST_DIFF_LINES + 1))
        is_cut = len(lines) > MAX_REQUEST_DIFF_LINES
    return RequestDiff(
        model, sent_at, equal, estimate_tokens(new[:equal]), len(new), len(old),
        tuple(lines[:MAX_REQUEST_DIFF_LINES]), is_cut,
    )  # fmt: skip


def _write_cached(body: Mapping[str, Any]) -> str:
    """Return what a provider's cache compares, as one text."""
    parts = (body[name] for name in CACHED_FIELDS if name in body)
    return "\n".join(json.dumps(part, ensure_ascii=False) for part in parts)


def _write_lines(body: Mapping[str, Any]) -> list[str]:
    """Return a body as lines of indented JSON, broken where its texts are, too."""
    text = json.dumps(body, ensure_ascii=False, indent=2)
    return text.replace("\\n", "\\n\n").split("\n")
