"""The checks of `sshwarma doctor` of models and MCP servers.

Every file, program and variable that they name is looked for.

Nothing is connected and nothing started. Models and servers that were added by verb are checked
when they are added.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from sshwarma.admin.check_result import CheckResult, Reason, warn
from sshwarma.admin.doctor_scripts import find_missing_file
from sshwarma.common.user_names import name_user
from sshwarma.mcp.client.address import FORBIDDEN_REASON, check_url, refusal_reason
from sshwarma.mcp.client.environment import (
    PROGRAMS_DIRECTORY,
    expand_variables,
    program_environment,
)
from sshwarma.mcp.client.shebang import find_missing_interpreter
from sshwarma.models.backend import BackendError
from sshwarma.models.local_files import PACKAGED_MODEL, check_engine, find_model_file
from sshwarma.models.prices import COST_LIMITS, is_price_known
from sshwarma.models.providers import check_package
from sshwarma.models.roster import describe_model
from sshwarma.models.secrets import read_key
from sshwarma.settings import McpSettings, ModelSettings, Settings
from sshwarma.world.errors import Invalid, Unavailable
from sshwarma.world.names import check_name

Problem: TypeAlias = tuple[str, str] | tuple[str, str, Reason]
"""The description of a problem and its remedy, and a reason that decides what is said of it."""


def check_models(settings: Settings, environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check the models of the settings.

    One without its variable has that as its reason: a running server may have it, as from the
    EnvironmentFile= of its unit. It has no other file of a key than this process.
    """
    for model in settings.models:
        name, problems = f"model {model.name}", list(_find_model_problems(model, environ))
        for detail, remedy, *reason in problems:
            yield CheckResult(name, False, detail, remedy, reason=next(iter(reason), None))
        if not problems:
            yield CheckResult(name, True, describe_model(model))


def _find_model_problems(model: ModelSettings, environ: Mapping[str, str]) -> Iterator[Problem]:
    """Yield each problem of a model."""
    try:
        check_name(model.name, "agent")
    except Invalid as error:
        yield error.message, "choose another name"
    yield from _find_file_problems(model)
    yield from _find_key_problems(model, environ)
    if (model.price_in is None) != (model.price_out is None):
        yield "one of price_in and price_out is missing", "set both or neither"
        return
    limits = [name for name in COST_LIMITS if getattr(model, name) is not None]
    if limits and not is_price_known(model):
        yield (
            f"its price is unknown, so {' and '.join(limits)} cannot be enforced",
            "set price_in and price_out",
        )


def _find_file_problems(model: ModelSettings) -> Iterator[tuple[str, str]]:
    """Yield what is not installed, or not there, of the model itself."""
    try:
        check_package(model.kind)
        if model.kind == "local":
            check_engine()
    except BackendError as error:
        yield str(error), "install it in the environment of the server"
        return
    if model.kind == "local" and model.model != PACKAGED_MODEL:  # the server downloads that one
        try:
            find_model_file(model.model)
        except BackendError as error:
            yield str(error), "set model to a GGUF file that the user of the server can read"


def _find_key_problems(model: ModelSettings, environ: Mapping[str, str]) -> Iterator[Problem]:
    """Yield what keeps the server from reading a model's key."""
    path = model.key_file
    try:
        read_key(model, environ)
    except BackendError as error:
        if path is not None:
            yield str(error), _describe_key_file_remedy(path)
        else:
            remedy = "set key_env or key_file, and the variable where the server runs"
            yield str(error), remedy, Reason.MISSING_VARIABLE
        return
    if path is not None and path.stat().st_uid not in (os.geteuid(), 0):
        owner = name_user(path.stat().st_uid)
        yield (
            f"the file {path} belongs to {owner}, who can change it",
            _describe_chown(path),
        )


def _describe_key_file_remedy(path: Path) -> str:
    user = name_user(os.geteuid())
    try:
        status = path.stat()
    except OSError:
        return f"create it: it must belong to {user}, with mode 0600, and hold the key"
    if not stat.S_ISREG(status.st_mode):
        return "set key_file to a file that holds the key"
    if status.st_uid != os.geteuid():
        return f"{_describe_chown(path)}; chmod 600 {path}"
    return f"chmod 600 {path}" if status.st_mode & 0o077 else f"write the key to {path}"


def _describe_chown(path: Path) -> str:
    """Return the command that makes a file this user's, which only root can run."""
    as_root = "" if os.geteuid() == 0 else "as root: "
    return f"{as_root}chown {name_user(os.geteuid())} {path}"


def check_mcp_servers(settings: Settings, environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check the MCP servers of the settings."""
    models = {model.name for model in settings.models}
    for server in settings.mcp:
        name = f"mcp {server.name}"
        try:
            check_name(server.name, "server")
        except Invalid as error:
            yield CheckResult(name, False, error.message, "choose another name")
            continue
        if server.name in models:
            yield CheckResult(name, False, "a model has the same name", "choose another name")
            continue
        problem = _find_server_problem(server, environ)
        if problem is not None:
            yield CheckResult(name, False, *problem)
            continue
        yield _check_files(server, settings.data_dir) or CheckResult(
            name, True, server.url or server.command[0]
        )


def _check_files(server: McpSettings, data_dir: Path) -> CheckResult | None:
    """Return a warning of a file in a command, such as a script, that is missing."""
    if not server.command:
        return None
    folder = server.cwd or data_dir / PROGRAMS_DIRECTORY / server.name
    missing = find_missing_file(server.command, folder)
    if missing is None:
        return None
    detail = f"{server.command[0]}, whose argument {missing} does not exist"
    remedy = "if the program reads it, correct command or create it"
    if not missing.startswith("/"):
        detail = f"{detail} in {folder}"
        remedy = "set cwd to the directory that it is in, or give its full path in command"
    return warn(f"mcp {server.name}", detail, remedy)


def _find_server_problem(server: McpSettings, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what keeps a server from being started or connected, and the remedy."""
    secret = {"secret": server.oauth_client_secret}
    try:
        variables = program_environment(server.env, environ)
        expand_variables(server.headers | secret, environ)
    except Unavailable as error:
        return error.message.rstrip("."), "set it where the server runs, and where doctor runs"
    if server.url is not None:
        return _find_url_problem(server.url, allow_private=server.allow_private)
    program = server.command[0]
    if server.cwd is not None and not server.cwd.is_dir():
        return f"the directory {server.cwd} does not exist", "create it, or change cwd"
    # A closed current directory must not matter, and PATH may name it.
    with contextlib.suppress(PermissionError):
        if (found := shutil.which(program, path=variables["PATH"])) is not None:
            missing = find_missing_interpreter(Path(found), variables["PATH"])
            if missing is None:
                return None
            return f"{program} needs {missing}, which is not found", f"install {missing}"
    with contextlib.suppress(PermissionError):
        if Path(program).is_file():
            return f"{program} is not executable", f"chmod +x {program}"
    return f"program {program} not found", "install it, or give its full path in command"


def _find_url_problem(url: str, *, allow_private: bool) -> tuple[str, str] | None:
    """Return why a server's address is never connected to; names are not resolved."""
    try:
        host = check_url(url).hostname or ""
        address = str(ipaddress.ip_address("127.0.0.1" if host == "localhost" else host))
    except Invalid as error:
        return error.message, "change url"
    except ValueError:  # the name of a host
        return None
    reason = refusal_reason(address, allow_private=allow_private)
    if not reason:
        return None
    remedy = "change url" if reason == FORBIDDEN_REASON else "set allow_private = true"
    return f"{host} is {reason}", remedy
