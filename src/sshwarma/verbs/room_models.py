"""The verb `/room models`: which models may be called in a room."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from sshwarma.common.limits import MAX_ROOM_MODELS
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option, complete_models
from sshwarma.verbs.rights import ArgumentRight
from sshwarma.verbs.room import room
from sshwarma.verbs.views import join_names, view
from sshwarma.world import things
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, empty_error

ALL_MODELS: Final = "all"
NO_MODELS: Final = "none"


@dataclass(frozen=True, slots=True)
class RoomModels:
    """The models that may be called in a room, by name; None for every model."""

    room: str
    models: tuple[str, ...] | None


@view(RoomModels)
def draw_room_models(result: RoomModels) -> Block:
    """Draw which models may be called in a room."""
    place = (" may be called in ", ("room", result.room), ".")
    if result.models is None:
        return block(line("Every model", *place))
    if not result.models:
        return block(line("No model", *place))
    return block(line("Only ", *join_names(result.models, "model"), *place, hang=2))


async def complete_room_models(request: CompletionRequest) -> list[Option]:
    """List the models, and the words for all and for none."""
    models = [option for option in await complete_models(request) if option[0] not in request.given]
    words = [(ALL_MODELS, "every model"), (NO_MODELS, "no model")] if len(request.given) < 2 else []
    return [*models, *words]


ModelNames: TypeAlias = Annotated[str, Arg(rest=True, complete=complete_room_models)]


@room.verb(
    "models",
    needs=Right.ENTER,
    also_needs=(ArgumentRight("names", Right.MODERATE, "to set them"),),
    tool=False,
    examples=("/room models", "/room models qwen opus", "/room models all"),
)
async def set_models(caller: Caller, names: ModelNames | None = None) -> RoomModels:
    """Show or set which models may be called in this room.

    Answers in progress are not stopped. The settings of a model may name its rooms, too: then it
    answers only where both agree.

    Args:
        names: names of models, at most {MAX_ROOM_MODELS}; `all` for every model, `none` for no
            model (default: show them).
    """
    here = await caller.room()
    if names is None:
        return RoomModels(here.name, _names_of(caller, here.model_ids))
    words = [word for word in re.split(r"[,\s]+", names) if word]
    if words == [ALL_MODELS]:
        model_ids: frozenset[str] | None = None
    elif words == [NO_MODELS]:
        model_ids = frozenset()
    elif not words:
        raise empty_error("names", hint="Use names of models, all or none.")
    else:
        model_ids = frozenset(caller.world.agents.find_model(word).id for word in words)
        if len(model_ids) > MAX_ROOM_MODELS:
            raise Invalid(f"A room may name at most {MAX_ROOM_MODELS} models.")
    named = _names_of(caller, model_ids)
    text = ALL_MODELS if named is None else ", ".join(named) or NO_MODELS
    if model_ids != here.model_ids:
        stored = None if model_ids is None else sorted(model_ids)
        await caller.change(
            lambda tx: things.set_metadata(tx, here.id, models=stored),
            f"set the models of the room: {text}",
        )
    return RoomModels(here.name, named)


def _names_of(caller: Caller, model_ids: frozenset[str] | None) -> tuple[str, ...] | None:
    if model_ids is None:
        return None
    return tuple(sorted(caller.world.agents.name_of(model_id) for model_id in model_ids))
