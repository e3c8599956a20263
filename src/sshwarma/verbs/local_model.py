"""Models of kind local in `/model add`: file, download, and what to expect."""

from __future__ import annotations

import asyncio
from typing import get_args

from sshwarma.common.shorten import shorten_name
from sshwarma.models.backend import BackendError
from sshwarma.models.local_files import PACKAGED_MODEL, PackagedModelMissing, find_model_file
from sshwarma.models.packaged_model import DOWNLOAD_TEXT
from sshwarma.services import services_of
from sshwarma.settings import ModelKind, ModelSettings
from sshwarma.verbs.model_settings import place_of
from sshwarma.verbs.views import Confirmation
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid
from sshwarma.world.reader import TextByReader, next_call


def default_model_of(caller: Caller, kind: str) -> str:
    """Return the model id of a kind where none was given; "" for an unknown kind.

    Raises:
        Invalid: if the kind has no default.
    """
    if kind == "local":
        return PACKAGED_MODEL
    if kind not in get_args(ModelKind):
        return ""  # refused with the kind
    raise Invalid(
        f"A model of kind {shorten_name(kind)} needs a model id.",
        hint=TextByReader(
            "It follows the kind, as in ollama qwen3:8b.", "Give the argument model."
        ),
        span=place_of(caller, ""),
    )


async def check_local_file(
    caller: Caller, settings: ModelSettings, *, may_download: bool = False
) -> bool:
    """Check that the file of a model of kind local can be used.

    Returns:
        Whether the file is there; it may be missing only if it is that of the packaged model and
        `may_download` is set.

    Raises:
        Invalid: with the reason why it cannot be used.
    """
    if settings.kind != "local":
        return True
    try:
        models_dir = services_of(caller).roster.models_dir
        await asyncio.to_thread(find_model_file, settings.model, models_dir)
    except BackendError as error:
        if may_download and isinstance(error, PackagedModelMissing):
            return False
        text = str(error)
        message = f"{text[:1].upper()}{text[1:]}."
        raise Invalid(message, span=place_of(caller, settings.model)) from None
    return True


def confirm_local_model(
    caller: Caller, agent: Agent, settings: ModelSettings, *, has_file: bool
) -> Confirmation:
    """Return what `/model add` says of a local model; start the download it needs."""
    text = f"{agent.name} answers now: @{agent.name} hello."
    if not has_file:
        text = (
            f"{agent.name} was added. Its model is being downloaded ({DOWNLOAD_TEXT}); a notice"
            " here says when it answers."
        )
        services_of(caller).roster.downloads.begin(agent.id, caller.room_id)
    return Confirmation(
        f"{text} {describe_local_model(settings)}",
        next_call(
            "Any GGUF file on the server works too: {}.",
            "model add", name="mine", kind="local", model="/path/to/file.gguf",
        ),
    )  # fmt: skip


def describe_local_model(settings: ModelSettings) -> str:
    """Return what to expect of a local model."""
    text = "It loads at the first question, which takes longer."
    if settings.model != PACKAGED_MODEL:
        return text
    return (
        f"{text} It has 135 million parameters. It can greet, add small numbers and say who is"
        " here. It has no tools, and its facts are unreliable."
    )
