"""The layers of a context that show a room's log, compacted to their budget."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import Connection

from sshwarma.world.caller import Caller
from sshwarma.world.leave_out import ToolRetention, read_retention_by_name
from sshwarma.world.row import Row
from sshwarma.wrap.compact import CompactedLog, compact_log
from sshwarma.wrap.layers import ContextMessage, Layer
from sshwarma.wrap.profiles import ToolSummary
from sshwarma.wrap.render_cache import RenderCache
from sshwarma.wrap.transcript import Transcript
from sshwarma.wrap.window import Window

MAX_INLINE_ROWS: Final = 200
MAX_INLINE_CHARACTERS: Final = 200_000
"""A longer log is compacted in a thread: it may take tens of milliseconds."""


def make_transcript(
    caller: Caller,
    log_window: Window,
    policies: Mapping[str, ToolRetention],
    provider_kind: str,
    tools: ToolSummary,
    cache: RenderCache,
) -> Transcript:
    """Return how the log is formatted for a model and its provider."""
    other_kinds = (turn for turn in log_window.turns if turn.provider_kind != provider_kind)
    return Transcript(
        caller.agent.id,
        caller.world.agents,
        policies,
        reader=tools.reader,
        plain_calls=not tools.names,
        text_turn_ids=frozenset(turn.id for turn in other_kinds),
        sent_characters={
            seq: characters
            for turn in log_window.turns
            if turn.agent_id == caller.agent.id
            for seq, characters in turn.sent_characters.items()
        },
        cache=cache,
    )


async def fit_log_layers(
    found: Iterable[Layer],
    rows: Sequence[Row],
    transcript: Transcript,
    budget: int,
    kept_tokens: int,
) -> tuple[list[Layer], frozenset[str]]:
    """Return the layers with those of the log compacted to `budget` tokens.

    Results to keep may have `kept_tokens` more.

    Returns them with the ids of the turns that are summarized in a line.
    """
    layers: list[Layer] = []
    summarized_ids: frozenset[str] = frozenset()
    for layer in found:
        if layer.rows is None:
            layers.append(layer)
            continue
        first, last = layer.rows
        layer_rows = [row for row in rows if first <= row.seq <= last]
        is_short = len(layer_rows) <= MAX_INLINE_ROWS and (
            sum(len(row.content) for row in layer_rows) <= MAX_INLINE_CHARACTERS
        )
        short_log = (
            compact_log(layer_rows, transcript, budget, kept_tokens)
            if is_short
            else await asyncio.to_thread(compact_log, layer_rows, transcript, budget, kept_tokens)
        )
        summarized_ids |= short_log.cut_turn_ids
        layers += _log_layers(layer, short_log)
    return layers, summarized_ids


def _log_layers(layer: Layer, fitted: CompactedLog) -> Iterable[Layer]:
    """Return the layer of the log, after the summary of the part that did not fit."""
    if fitted.summary:
        line = ContextMessage("user", fitted.summary)
        yield Layer("summary", "epoch", layer.side, lines=(line,))
    yield replace(layer, rows=None, lines=fitted.lines, note=fitted.note)


def read_policies(conn: Connection, rows: Iterable[Row]) -> dict[str, ToolRetention]:
    """Return the policies of each tool that rows name."""
    names = {str(row.meta["tool"]) for row in rows if "tool" in row.meta}
    found = ((name, read_retention_by_name(conn, name)) for name in names)
    return {name: retention for name, retention in found if retention is not None}
