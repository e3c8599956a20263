"""Tools as offered to a model, and the text by which their tokens are estimated."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from sshwarma.common.limits import MAX_FEW_TOOLS
from sshwarma.models.backend import OfferedTool
from sshwarma.tools.compact_schema import make_model_schema, make_short_schema
from sshwarma.tools.exact_schema import make_exact_schema
from sshwarma.world.access import Right
from sshwarma.world.bootstrap import MODEL_TEXTS_KEY, is_of_use
from sshwarma.world.builtin_containers import is_builtin_tool
from sshwarma.world.loadout import LoadoutItem
from sshwarma.world.reader import Reader
from sshwarma.world.things import Thing
from sshwarma.world.tool_names import model_tool_name
from sshwarma.wrap.profiles import FULL_PROFILE, ContextProfile, ToolSummary

FEW_TOOLS: Final = (
    "sshwarma:look",
    "sshwarma:who",
    "sshwarma:history",
    "global:search",
    "sshwarma:note",
)
"""Tools of the program itself that a small model is offered, where they are equipped."""


MAX_SHORT_DESCRIPTION_CHARACTERS: Final = 120

_OFFER_FRAME: Final = '{"type":"function","function":{"name":"","description":"","parameters":'
"""What stands around a tool in a request."""

_FIRST_SENTENCE: Final = re.compile(r".*?[.!?](?=\s|$)", re.DOTALL)


def offer_tools(
    items: Iterable[LoadoutItem],
    profile: ContextProfile = FULL_PROFILE,
    rights: frozenset[Right] = frozenset(Right),
) -> tuple[OfferedTool, ...]:
    """Return the tools that a model of a profile is offered, in the order of `items`.

    With its `rights`, those are left out that it would be refused. So are those that another one
    covers: each tool costs a model tokens in every request. A model may call them nevertheless.
    """
    items = [item for item in items if is_of_use(item.thing, rights)]
    labels = set() if profile.has_covered_tools else {item.thing.label for item in items}
    items = [item for item in items if _model_texts(item.thing).get("covered_by") not in labels]
    if profile.tools == "none":
        return ()
    if profile.tools == "all":
        return tuple(_offer_tool(item.thing) for item in items)
    return tuple(_shorten_offer(_offer_tool(item.thing)) for item in _choose_few(items))


def _choose_few(items: list[LoadoutItem]) -> list[LoadoutItem]:
    """Return the tools of FEW_TOOLS and the first ones that people equipped."""
    chosen = {item.thing.id for item in items if item.thing.label in FEW_TOOLS}
    for item in items:
        if len(chosen) < MAX_FEW_TOOLS and not is_builtin_tool(item.thing.label):
            chosen.add(item.thing.id)
    return [item for item in items if item.thing.id in chosen]


def _model_texts(tool: Thing) -> dict[str, Any]:
    return tool.metadata.get(MODEL_TEXTS_KEY) or {}


def _offer_tool(tool: Thing) -> OfferedTool:
    texts = _model_texts(tool)
    schema = tool.metadata.get("input_schema")
    return OfferedTool(
        model_tool_name(tool.label),
        tool.label,
        texts.get("description") or tool.description,
        make_exact_schema(
            make_model_schema(
                schema if isinstance(schema, dict) else {},
                leave_out=texts.get("rarely_used", ()),
                descriptions=texts.get("arguments"),
            )
        ),
    )


def _shorten_offer(offer: OfferedTool) -> OfferedTool:
    """Return a tool with one sentence of description and a shortened schema.

    The schema holds names, kinds and choices.
    """
    match = _FIRST_SENTENCE.match(offer.description)
    text = " ".join((match[0] if match else offer.description).split())
    if is_builtin_tool(offer.canonical):
        text = text.replace("@", "")  # our tools find an agent by its bare name, too
    return replace(
        offer,
        description=text[:MAX_SHORT_DESCRIPTION_CHARACTERS],
        input_schema=make_short_schema(offer.input_schema),
    )


def write_offers(offers: Iterable[OfferedTool]) -> str:
    """Return the tools about as a provider sends them, sorted by name."""
    return "".join(
        _OFFER_FRAME
        + offer.name
        + offer.description
        + json.dumps(offer.input_schema, separators=(",", ":"), ensure_ascii=False)
        for offer in sorted(offers, key=lambda offer: offer.name)
    )


def summarize_tools(offers: Iterable[OfferedTool]) -> ToolSummary:
    """Return what composing a context needs to know of the tools a request offers."""
    known = tuple(offers)
    names = {offer.canonical: offer.name for offer in known}
    return ToolSummary(write_offers(known), names, make_model_reader(known))


def make_model_reader(offers: Iterable[OfferedTool]) -> Reader:
    """Return a model as reader of results: it can call the tools it is offered."""
    arguments = ((offer.name, offer.input_schema.get("properties", ())) for offer in offers)
    return Reader("model", frozenset((name, frozenset(names)) for name, names in arguments))
