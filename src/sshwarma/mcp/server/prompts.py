"""Prompts: the data things `prompt:NAME` that are equipped for an agent where it stands. What
stands in braces in one, as in `Summarise {room} for {who}.`, is an argument."""

from __future__ import annotations

import re
from typing import Final

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.things import Thing

PROMPT_PREFIX: Final = "prompt:"

MAX_DESCRIPTION_CHARACTERS: Final = 200
"""Characters of a prompt's first line that describe it, if nothing else does."""

_ARGUMENT_PATTERN: Final = re.compile(r"\{([a-z][a-z0-9_]{0,63})\}")


async def list_prompts(caller: Caller) -> list[Prompt]:
    """The caller's prompts, by name."""
    return [
        _make_prompt(name, thing)
        for name, thing in sorted((await _equipped_prompts(caller)).items())
    ]


async def fill_prompt(caller: Caller, name: str, arguments: dict[str, str]) -> GetPromptResult:
    """A prompt with its arguments in their places.

    Raises:
        NotFound: if no prompt of that name is equipped.
        Invalid: naming the arguments that are missing.
    """
    thing = (await _equipped_prompts(caller)).get(name)
    if thing is None:
        raise NotFound(
            f"No prompt {name[:60]} is equipped here.",
            hint=f"/equip room {PROMPT_PREFIX}{name[:60]} would do that, if there is one.",
        )
    missing = [word for word in _argument_names(thing) if word not in arguments]
    if missing:
        raise Invalid(f"The prompt {name} needs {', '.join(missing)}.")
    text = _ARGUMENT_PATTERN.sub(lambda found: arguments[found[1]], thing.content or "")
    message = PromptMessage(role="user", content=TextContent(text=text))
    return GetPromptResult(description=_describe_prompt(thing), messages=[message])


async def prompts_signature(caller: Caller) -> object:
    """Equal while the caller's prompts look alike."""
    found = await _equipped_prompts(caller)
    return tuple((name, thing.id, thing.updated_at) for name, thing in sorted(found.items()))


async def _equipped_prompts(caller: Caller) -> dict[str, Thing]:
    load = await caller.world.loadout(caller.room_id, caller.agent.id)
    return {
        item.thing.name.removeprefix(PROMPT_PREFIX): item.thing
        for item in load.data
        if item.thing.kind == "data" and item.thing.name.startswith(PROMPT_PREFIX)
    }


def _make_prompt(name: str, thing: Thing) -> Prompt:
    return Prompt(
        name=name,
        description=_describe_prompt(thing),
        arguments=[PromptArgument(name=word, required=True) for word in _argument_names(thing)],
    )


def _describe_prompt(thing: Thing) -> str:
    first = (thing.content or "").strip().partition("\n")[0][:MAX_DESCRIPTION_CHARACTERS]
    return thing.description or first or thing.name


def _argument_names(thing: Thing) -> list[str]:
    return list(dict.fromkeys(_ARGUMENT_PATTERN.findall(thing.content or "")))
