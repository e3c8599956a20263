"""What a model is told, as layers: each says how stable it is, where it goes and how big it may be.

Providers keep the prefix of a request that is byte for byte the same as last time, so layers are
ordered from what changes least to what changes most, whatever order they were made in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

Stability = Literal["release", "model", "room", "epoch", "log", "turn", "volatile"]
Side = Literal["system", "conversation"]

STABILITIES: Final[tuple[Stability, ...]] = (
    "release",  # changes with the program
    "model",  # with the model's own settings
    "room",  # with the room's text and equipment
    "epoch",  # when the log is compacted
    "log",  # only ever grows at its end
    "turn",  # from one turn to the next
    "volatile",  # with every request
)

CHARACTERS_PER_TOKEN: Final = 3.6
"""Measured over prose, chat and JSON Schema with cl100k: 3.1 to 4.7. A little low, to be safe."""


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """One message of the conversation."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Layer:
    """A part of the context. `budget` is in tokens, 0 for no limit of its own. A layer of the
    conversation has `lines`, one of the system side `text`; one of the log says between which
    `rows`, by their `seq`, until they are made its lines."""

    name: str
    stability: Stability
    side: Side
    text: str = ""
    lines: tuple[ContextMessage, ...] = ()
    budget: int = 0
    rows: tuple[int, int] | None = None
    note: str = ""  # what was done to it, or went wrong with it

    @property
    def tokens(self) -> int:
        """An estimate."""
        return estimate_tokens(self.text) + sum(estimate_tokens(line.text) for line in self.lines)


def estimate_tokens(text: str) -> int:
    """How many tokens a text is about."""
    return -(-len(text) * 10 // int(CHARACTERS_PER_TOKEN * 10)) if text else 0


def sort_layers(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Layers from the most stable to the most volatile, system before conversation; those alike
    keep the order they were made in."""
    return tuple(
        sorted(
            layers,
            key=lambda layer: (layer.side != "system", STABILITIES.index(layer.stability)),
        )
    )


def cut_to_budget(layer: Layer) -> Layer:
    """The layer cut to its own budget, with a mark where it was cut. Never in a code point."""
    if not layer.budget or layer.tokens <= layer.budget or layer.lines:
        return layer
    kept = int(layer.budget * CHARACTERS_PER_TOKEN)
    left = len(layer.text) - kept
    text = f"{layer.text[:kept]}\n[{left} more characters of {layer.name} are not shown]"
    return replace(layer, text=text, note=f"cut by {left} characters")


def join_system_text(layers: Iterable[Layer]) -> str:
    """The system side as one text."""
    return "\n\n".join(layer.text for layer in layers if layer.side == "system" and layer.text)


def join_conversation(layers: Iterable[Layer]) -> tuple[ContextMessage, ...]:
    """The conversation as messages."""
    return tuple(line for layer in layers if layer.side == "conversation" for line in layer.lines)
