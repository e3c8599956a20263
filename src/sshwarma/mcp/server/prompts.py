"""MCP prompts: the data things `prompt:NAME` equipped for an agent in its room.

A word in braces is an argument, as in `Summarise {room} for {who}.`
"""

from __future__ import annotations

import re
from typing import Final

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from sshwarma.common.shorten import shorten_name
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.things import Thing

PROMPT_PREFIX: Final = "prompt:"

MAX_PROMPT_DESCRIPTION_CHARACTERS: Final = 200
"""Characters of a prompt's first line that serve as its description, if it has no other."""

_ARGUMENT_PATTERN: Final = re.compile(r"\{([a-z][a-z0-9_]{0,63})\}")


async def list_prompts(caller: Caller) -> list[Prompt]:
    """Return the caller's prompts, sorted by name."""
    return [
        _make_prompt(name, thing)
        for name, thing in sorted((await _read_equipped_prompts(caller)).items())
    ]


async def fill_prompt(caller: Caller, name: str, arguments: dict[str, str]) -> GetPromptResult:
    """Return a prompt with its arguments filled in.

    Raises:
        NotFound: if no prompt of that name is equipped.
        Invalid: if arguments are missing; the text names them.
    """
    thing = (await _read_equipped_prompts(caller)).get(name)
    if thing is None:
        raise NotFound(
            f"Prompt {shorten_name(name)} is not equipped here.",
            hint="prompts/list has those that are.",
        )
    missing_names = [word for word in _argument_names(thing) if word not in arguments]
    if missing_names:
        raise Invalid(f"The prompt {name} needs {', '.join(missing_names)}.")
    text = _ARGUMENT_PATTERN.sub(lambda found: arguments[found[1]], thing.content or "")
    message = PromptMessage(role="user", content=TextContent(text=text))
    return GetPromptResult(description=_describe_prompt(thing), messages=[message])


async def prompts_signature(caller: Caller) -> object:
    """Return a value that changes when the caller's prompts do."""
    prompts = await _read_equipped_prompts(caller)
    return tuple((name, thing.id, thing.updated_at) for name, thing in sorted(prompts.items()))


async def _read_equipped_prompts(caller: Caller) -> dict[str, Thing]:
    load = await caller.loadout()
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
    first_line = (
        (thing.content or "").strip().partition("\n")[0][:MAX_PROMPT_DESCRIPTION_CHARACTERS]
    )
    return thing.description or first_line or thing.name


def _argument_names(thing: Thing) -> list[str]:
    return list(dict.fromkeys(_ARGUMENT_PATTERN.findall(thing.content or "")))
