"""Layers of a model's context: each has a stability, a side and a budget.

Providers cache the prefix of a request that is byte for byte the same as last time, so layers are
ordered from the most stable to the most volatile, whatever order they were made in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from sshwarma.wrap.tokens import (
    MESSAGE_OVERHEAD_TOKENS,
    count_fitting_characters,
    estimate_tokens,
)

Stability = Literal["release", "model", "room", "epoch", "log", "turn", "volatile"]
Side = Literal["system", "conversation"]

STABILITIES: Final[tuple[Stability, ...]] = (
    "release",  # changes with the program
    "model",  # with the model's own settings
    "room",  # with the room's text and equipment
    "epoch",  # when the log is compacted
    "log",  # append-only
    "turn",  # from one turn to the next
    "volatile",  # with every request
)


@dataclass(frozen=True, slots=True)
class ContextCall:
    """A tool call that the model made in an earlier turn, with its result.

    `name` is the tool's name as the model calls it.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    result: str
    is_error: bool = False
    _tokens: int = field(default=-1, init=False, compare=False, repr=False)

    @property
    def tokens(self) -> int:
        """An estimate of the tokens of the call and its result."""
        if self._tokens < 0:
            arguments = json.dumps(self.arguments, ensure_ascii=False)
            texts = self.name, arguments, self.result
            tokens = sum(map(estimate_tokens, texts)) + 2 * MESSAGE_OVERHEAD_TOKENS
            object.__setattr__(self, "_tokens", tokens)
        return self._tokens

    def describe(self) -> str:
        """Return the call and its result as two lines of text, for people."""
        how = "fails" if self.is_error else "returns"
        return f"  calls {self.describe_call()}\n  {how}: {self.result}"

    def describe_call(self) -> str:
        """Return the tool and the arguments, for people."""
        return f"{self.name} {json.dumps(self.arguments, ensure_ascii=False)}"


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """One message of the conversation.

    A message of the model itself (`assistant`) may have the tool calls that followed its text.
    """

    role: Literal["user", "assistant"]
    text: str
    calls: tuple[ContextCall, ...] = ()
    _tokens: int = field(default=-1, init=False, compare=False, repr=False)

    @property
    def tokens(self) -> int:
        """An estimate of the message's tokens, made once: there are thousands."""
        if self._tokens < 0:
            tokens = estimate_tokens(self.text) + MESSAGE_OVERHEAD_TOKENS
            tokens += sum(call.tokens for call in self.calls)
            object.__setattr__(self, "_tokens", tokens)
        return self._tokens

    def describe(self) -> str:
        """Return the message as text, for people."""
        lines = [f"{self.role}: {self.text}"]
        for call in self.calls:
            lines.append(call.describe())
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Layer:
    """A part of the context.

    A layer of the conversation has `lines`, one of the system side `text`; the log's layer has the
    `seq` range of its `rows` until they are rendered as `lines`. `budget` is in tokens, 0 for no
    limit of its own.
    """

    name: str
    stability: Stability
    side: Side
    text: str = ""
    lines: tuple[ContextMessage, ...] = ()
    budget: int = 0
    rows: tuple[int, int] | None = None
    note: str = ""  # how it was changed, or why it failed

    @property
    def tokens(self) -> int:
        """An estimate of the layer's tokens."""
        return estimate_tokens(self.text) + sum(line.tokens for line in self.lines)


class InvalidLayer(Exception):
    """A script returned something that is not a layer; the message is the reason."""


def sort_layers(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Return layers from most stable to most volatile, system before conversation.

    Equal ones keep their order.
    """
    return tuple(
        sorted(
            layers,
            key=lambda layer: (layer.side != "system", STABILITIES.index(layer.stability)),
        )
    )


def cut_to_budget(layer: Layer) -> Layer:
    """Return the layer cut to its own budget, never within a code point.

    A mark shows the cut.
    """
    if not layer.budget or layer.tokens <= layer.budget or layer.lines:
        return layer
    character_limit = count_fitting_characters(layer.text, layer.budget)
    omitted_count = len(layer.text) - character_limit
    text = layer.text[:character_limit] + _make_cut_mark(layer.name, omitted_count)
    return replace(layer, text=text, note=f"cut by {omitted_count} characters")


def _make_cut_mark(name: str, omitted_count: int) -> str:
    return f"\n[{omitted_count} more characters of {name} are not shown]"


def fit_layers(layers: Sequence[Layer], tokens: int) -> list[Layer]:
    """Return layers of at most about `tokens` tokens, the longest cut to one length.

    A layer without a budget of its own, such as the question, is never cut.
    """
    excess = sum(layer.tokens for layer in layers) - tokens
    sizes = sorted(layer.tokens for layer in layers if layer.budget)
    while excess > 0 and sizes:  # lower the longest ones to the next one, together
        longest, others = sizes[-1], [size for size in sizes if size < sizes[-1]]
        count = len(sizes) - len(others)
        lower = max(others[-1] if others else 0, longest - -(-excess // count))
        excess -= (longest - lower) * count
        sizes = [*others, *[lower] * count]
        if lower == 0:
            break
    limit = max(1, sizes[-1]) if sizes else 0
    return [_cut_layer(layer, limit) if layer.tokens > limit else layer for layer in layers]


def _cut_layer(layer: Layer, limit: int) -> Layer:
    """Return a layer with a budget cut to at most `limit` tokens, the mark included."""
    if not layer.budget or layer.rows is not None or len(layer.lines) > 1:
        return layer
    text = layer.lines[0].text if layer.lines else layer.text
    reserved = estimate_tokens(_make_cut_mark(layer.name, len(text)))
    reserved += MESSAGE_OVERHEAD_TOKENS if layer.lines else 0
    budget = max(1, limit - reserved)
    cut = cut_to_budget(replace(layer, text=text, lines=(), budget=budget))
    if not layer.lines:
        return cut
    return replace(cut, text="", lines=(ContextMessage("user", cut.text),))


def join_system_text(layers: Iterable[Layer]) -> str:
    """Return the system side as one text."""
    return "\n\n".join(layer.text for layer in layers if layer.side == "system" and layer.text)


def join_conversation(layers: Iterable[Layer]) -> tuple[ContextMessage, ...]:
    """Return the conversation as messages."""
    return tuple(line for layer in layers if layer.side == "conversation" for line in layer.lines)


def _parse_messages(name: str, side: Side, described: dict[str, Any]) -> tuple[ContextMessage, ...]:
    """Return the messages of a layer that a script described.

    Raises:
        InvalidLayer: with the reason.
    """
    messages = described["messages"]
    if side != "conversation":
        raise InvalidLayer(f"the side of {name} must be conversation, because it has messages")
    if not isinstance(messages, list):
        raise InvalidLayer(f"the messages of {name} are not an array")
    lines: list[ContextMessage] = []
    for message in messages:
        match message:
            case {"role": "user" | "assistant" as role, "text": str(text)}:
                lines.append(ContextMessage(role, text))
            case _:
                raise InvalidLayer(f"a message of {name} needs a role (user, assistant) and a text")
    return tuple(lines)


def parse_layer(described: Any) -> Layer:
    """Return the layer that a script described as a table.

    Raises:
        InvalidLayer: with the reason.
    """
    if not isinstance(described, dict):
        raise InvalidLayer("it is not a table")
    name, stability, side = described.get("name"), described.get("stability"), described.get("side")
    if not isinstance(name, str) or not name:
        raise InvalidLayer("it has no name")
    if stability not in STABILITIES:
        raise InvalidLayer(f"the stability of {name} must be one of: {', '.join(STABILITIES)}")
    if side not in ("system", "conversation"):
        raise InvalidLayer(f"the side of {name} must be one of: system, conversation")
    if not isinstance(described.get("text", ""), (str, int, float)):
        raise InvalidLayer(f"the text of {name} is not a string")
    match described.get("rows"):
        case [int(first), int(last)]:
            return Layer(name, stability, side, rows=(first, last))
    if "messages" in described:
        return Layer(name, stability, side, lines=_parse_messages(name, side, described))
    value = described.get("budget")
    budget = value if isinstance(value, int) and value > 0 else 0
    layer = cut_to_budget(
        Layer(name, stability, side, text=str(described.get("text", "")), budget=budget)
    )
    if side == "conversation":
        return replace(layer, text="", lines=(ContextMessage("user", layer.text),))
    return layer
