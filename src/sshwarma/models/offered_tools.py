"""Tools as a model is offered them, and the text by which their tokens are estimated."""

from __future__ import annotations

import json
from collections.abc import Iterable

from sshwarma.models.backend import OfferedTool
from sshwarma.tools.compact_schema import make_model_schema
from sshwarma.tools.names import model_tool_name
from sshwarma.world.bootstrap import MODEL_TEXTS_KEY
from sshwarma.world.loadout import LoadoutItem
from sshwarma.world.things import Thing


def offer_tools(items: Iterable[LoadoutItem]) -> tuple[OfferedTool, ...]:
    """Return tools as a model is offered them, in the same order."""
    return tuple(_offer_tool(item.thing) for item in items)


def _offer_tool(tool: Thing) -> OfferedTool:
    texts = tool.metadata.get(MODEL_TEXTS_KEY) or {}
    schema = tool.metadata.get("input_schema")
    return OfferedTool(
        model_tool_name(tool.label),
        tool.label,
        texts.get("description") or tool.description,
        make_model_schema(
            schema if isinstance(schema, dict) else {},
            leave_out=texts.get("rarely_used", ()),
            describe=not texts.get("explains_parameters"),
        ),
    )


def write_offers(offers: Iterable[OfferedTool]) -> str:
    """Return the tools about as a provider sends them, sorted by name."""
    return "".join(
        offer.name + offer.description + json.dumps(offer.input_schema, separators=(",", ":"))
        for offer in sorted(offers, key=lambda offer: offer.name)
    )
