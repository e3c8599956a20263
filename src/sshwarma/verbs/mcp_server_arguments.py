"""Arguments of `/mcp add`: the server settings they make, and what they refuse."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from sshwarma.common.shorten import shorten_name, shorten_text
from sshwarma.common.validation_text import describe_validation_error
from sshwarma.mcp.client.address import check_address, check_url
from sshwarma.mcp.client.environment import expand_text, program_environment
from sshwarma.settings import McpSettings
from sshwarma.verbs.argument_names import name_arguments
from sshwarma.world import names
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.reader import TextByReader

SETTINGS_BY_FLAG: Final = {"header": "headers"}
"""Names in the settings of those flags of /mcp add that have another name there."""

SERVER_ARGUMENTS: Final = {
    **{setting: flag for flag, setting in SETTINGS_BY_FLAG.items()},
    **{
        name: name
        for name in ("env", "cwd", "sse", "allow_private", "trust", "call_seconds", "memory_mib",
                     "oauth_client_id", "oauth_client_secret", "oauth_issuer", "oauth_scope",
                     "oauth_machine")
    },
}  # fmt: skip
"""The parameter of /mcp add for each setting that a flag sets."""


def make_server_settings(
    caller: Caller, name: str, target: str, flags: dict[str, Any]
) -> McpSettings:
    """Make the settings of a server from the flags of `/mcp add`.

    Raises:
        Invalid: with the value that is wrong; its flag or parameter is named as the caller gave it.
    """
    names.check_name(name, "server")
    values: dict[str, Any] = {"name": name}
    values |= {
        SETTINGS_BY_FLAG.get(flag, flag.replace("-", "_")): value for flag, value in flags.items()
    }
    if target == "--" or target.startswith("-- "):
        values["command"] = tuple(_split_command(target.removeprefix("--")))
        if not values["command"]:
            raise Invalid("The -- needs a command after it.")
    elif "://" not in target:
        raise Invalid(
            f"{shorten_name(target)} is neither a URL nor -- and a command.",
            hint=TextByReader(
                f"A command comes after --, without quotes: /mcp add {name} -- COMMAND",
                'A command is given as target: "-- COMMAND".',
            ),
        )
    else:
        values["url"] = check_url(target).geturl()
    if "headers" in values:
        values["headers"] = dict(
            _split_pair(text, ":", "'NAME: VALUE'") for text in values["headers"]
        )
    if "env" in values:
        values["env"] = dict(_split_pair(text, "=", "NAME=VALUE") for text in values["env"])
    try:
        return McpSettings.model_validate(values)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        problem = describe_validation_error(detail, show_value=False)
        setting = str(detail["loc"][0]) if detail["loc"] else ""
        if setting and setting not in {"command", "url"}:
            problem = f"{setting}: {problem}"
        if problem.partition(" ")[0].rstrip(",:") not in SERVER_ARGUMENTS:
            problem = f"{problem[:1].upper()}{problem[1:]}"
        raise Invalid(f"{name_arguments(caller, problem, SERVER_ARGUMENTS)}.") from error


def _split_pair(text: str, sign: str, form: str) -> tuple[str, str]:
    name, separator, value = text.partition(sign)
    if not separator or not name.strip():
        raise Invalid(f"{shorten_name(text)} is not {form}.")
    return name.strip(), value.strip()


def _split_command(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise Invalid(f"The command cannot be read: {error}.") from error


async def check_folder(caller: Caller, cwd: str | None) -> None:
    """Refuse a working directory that a command cannot be started in.

    A path that is not absolute would begin where the server was started.

    Raises:
        Invalid: unless it is the absolute path of a directory.
    """
    if not cwd:
        return
    folder = Path(cwd)
    argument = name_arguments(caller, "cwd", SERVER_ARGUMENTS)
    if not folder.is_absolute():
        raise Invalid(f"{argument}: must be an absolute path (got {shorten_name(str(folder))}).")
    if not await asyncio.to_thread(folder.is_dir):
        raise Invalid(
            f"{argument}: the directory {shorten_name(str(folder))} does not exist on the server.",
            hint="Create it there first.",
        )


async def check_reachable(settings: McpSettings) -> None:
    """Refuse an address that is never connected to, because a retry cannot help.

    Raises:
        BlockedAddress: with the address that the name resolves to.
    """
    if settings.url is not None:
        await check_address(settings.url, allow_private=settings.allow_private)


async def check_program(settings: McpSettings) -> None:
    """Raise unless the program of a server's command exists.

    A misspelled one never starts.

    Raises:
        NotFound: naming the program.
        Unavailable: if its environment needs a variable that is not set.
    """
    if not settings.command:
        return
    path = program_environment(settings.env, os.environ)["PATH"]
    program = expand_text(settings.command[0], os.environ)
    if settings.cwd is not None and "/" in program:
        program = str(settings.cwd / program)
    if await asyncio.to_thread(shutil.which, program, path=path) is None:
        raise NotFound(
            f"Program {shorten_text(settings.command[0])} not found. The server was not added.",
            hint="Give the path of a program, or a name that is in this server's PATH.",
        )
