"""Context profiles: how much a model is sent, by its size.

A small model (up to about 8 billion parameters) copies templates, confuses many tools and forgets
rules, so it gets a charter of a few sentences, examples, and few tools with short schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sshwarma.settings import OfferedTools, ProfileName
from sshwarma.world.reader import Reader


@dataclass(frozen=True, slots=True)
class ContextProfile:
    """What a model is sent.

    Attributes:
        name: Which layers.
        tools: Which of the usable tools.
        has_covered_tools: Whether tools are among them that another one covers.
    """

    name: ProfileName = "full"
    tools: OfferedTools = "all"
    has_covered_tools: bool = False


FULL_PROFILE: Final = ContextProfile()


@dataclass(frozen=True, slots=True)
class ContextReader:
    """The model that a context is for.

    Attributes:
        provider_kind: Its kind of provider. Own calls of turns that another kind answered are sent
            as text.
        profile: Its profile.
        output_tokens: Maximum output tokens of one step; None if there is no limit.
        result_tokens: Tokens of its context that are kept for results of tools.
    """

    provider_kind: str = ""
    profile: ProfileName = "full"
    output_tokens: int | None = None
    result_tokens: int = 0


UNKNOWN_READER: Final = ContextReader()


NO_TOOLS_READER: Final = Reader("model")
"""A model that is offered no tools, to which no text names a call."""


@dataclass(frozen=True, slots=True)
class ToolSummary:
    """The tools that a request offers.

    Attributes:
        text: The tools about as they are sent.
        names: The name by which the model calls each, by its label.
        reader: The model as the reader of texts that name calls.
    """

    text: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    reader: Reader = NO_TOOLS_READER


NO_TOOLS: Final = ToolSummary()
