"""Tab completion of the settings of a model and their values."""

from __future__ import annotations

from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from sshwarma.settings import ModelKind, ModelSettings
from sshwarma.verbs.arguments import CompletionRequest, Option, complete_rooms


async def complete_kinds(request: CompletionRequest) -> list[Option]:
    """List the kinds of providers."""
    return [(kind, "") for kind in get_args(ModelKind)]


async def complete_values(request: CompletionRequest) -> list[Option]:
    """List the values of the setting in `request.given`, and `-` for its default."""
    setting = request.given[1].replace("-", "_") if len(request.given) > 1 else ""
    field = ModelSettings.model_fields.get(setting)
    typed = {name for word in request.given[2:] for name in word.split(",") if name}
    if field is None or (typed and setting != "rooms"):
        return []
    options = [(value, "") for value in _list_values(field.annotation)]
    if setting == "rooms":
        options = [option for option in await complete_rooms(request) if option[0] not in typed]
    has_default = not field.is_required() and not typed
    return [*options, ("-", "the default")] if has_default else options


def _list_values(annotation: Any) -> list[str]:
    """List the words that a setting of that type accepts; none if it accepts any."""
    if annotation is bool:
        return ["on", "off"]
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if get_origin(annotation) in (Union, UnionType):
        return [value for option in get_args(annotation) for value in _list_values(option)]
    return []
