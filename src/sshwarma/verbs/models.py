"""The verb models: the models that answer in this room."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.services import services_of
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import SkippedSetting, draw_columns, draw_skipped, list_skipped, view
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller


@dataclass(frozen=True, slots=True)
class ModelListItem:
    """A model as /models shows it."""

    name: str
    model: str
    description: str


@dataclass(frozen=True, slots=True)
class ModelList:
    """The models that answer in the caller's room.

    Attributes:
        skipped: models of the settings that are not in force, with the reasons; for admins.
    """

    models: tuple[ModelListItem, ...]
    skipped: tuple[SkippedSetting, ...] = ()


@view(ModelList)
def draw_model_list(result: ModelList) -> Block:
    """Draw the models that answer in a room."""
    if not result.models:
        return block("No model answers here.", *draw_skipped(result.skipped))
    return block(
        line(("heading", "Models:")),
        *draw_columns(
            (
                ("model", f"@{model.name}"),
                ("dim", model.model),
                "" if model.description in (model.name, model.model) else model.description,
            )
            for model in result.models
        ),
        *draw_skipped(result.skipped),
    )


@verb("models", section="Models", needs=Right.ENTER, examples=("/models",))
async def list_models(caller: Caller) -> ModelList:
    """List models that answer when they are mentioned.

    A model that does not answer in this room is left out: it is muted here or banned, or the room
    or its own settings say where it may be called.
    """
    answering = services_of(caller).turns
    room = await caller.room()
    skipped = services_of(caller).roster.skipped if await caller.may_administer() else {}
    return ModelList(
        tuple(
            ModelListItem(agent.name, answering.model_of(agent), agent.description)
            for agent in answering.list_models_in(room)
        ),
        list_skipped(skipped),
    )
