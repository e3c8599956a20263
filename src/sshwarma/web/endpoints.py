"""Endpoints of the API with names of their own, each a verb of the registry.

The arguments of a verb are the query of a GET, and the body of a POST, as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sshwarma.common.json_guard import check_json_size
from sshwarma.verbs.registry import find_verb
from sshwarma.verbs.verb import Verb
from sshwarma.world.errors import Invalid
from sshwarma.world.reader import register_endpoint

API_PREFIX: Final = "/api/v1"
ZIP_TYPE: Final = "application/zip"
BYTES_TYPE: Final = "application/octet-stream"
EVENT_STREAM_TYPE: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path of the API that runs a verb.

    Attributes:
        name: the last part of its path.
        method: of HTTP.
        verb: name of the verb.
        defaults: arguments that a request need not give.
        answers_with: media type of the content of the file that is the result; "" for JSON.
        takes: media type of a body that is the file itself, besides JSON; "" for none.
        switched_off_by: the argument that runs `switched_off` if it is false; "" for none.
        switched_off: name of that verb.
        leaves_out: arguments with which the verb would change something: a GET does not.
    """

    name: str
    method: Literal["GET", "POST"]
    verb: str
    defaults: tuple[tuple[str, Any], ...] = ()
    answers_with: str = ""
    takes: str = ""
    switched_off_by: str = ""
    switched_off: str = ""
    leaves_out: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The path of its requests."""
        return f"{API_PREFIX}/{self.name}"


ENDPOINTS: Final = (
    Endpoint("list_toolsets", "GET", "toolset list"),
    Endpoint("get_toolset", "GET", "toolset show"),
    Endpoint("import_toolset", "POST", "toolset import", takes=ZIP_TYPE),
    Endpoint("export_toolset", "GET", "toolset export", answers_with=ZIP_TYPE),
    Endpoint(
        "enable_toolset",
        "POST",
        "toolset enable",
        switched_off_by="enabled",
        switched_off="toolset disable",
    ),
    Endpoint("uninstall_toolset", "POST", "toolset uninstall"),
    Endpoint("list_tools", "GET", "tool list", defaults=(("pattern", "*"),)),
    Endpoint("get_available_tools", "GET", "tool list"),
    Endpoint("get_tool", "GET", "tool show"),
    Endpoint("get_workspace_files", "GET", "files"),
    Endpoint("get_workspace_file", "GET", "file get", answers_with=BYTES_TYPE),
    Endpoint("get_workspace_manifest", "GET", "file version"),
    Endpoint("get_project_memory_keys", "GET", "mem project list"),
    Endpoint(
        "get_project_memory_value",
        "GET",
        "mem project get",
        leaves_out=("target_session_key",),
    ),
    Endpoint("get_session_memory_keys", "GET", "mem session list"),
    Endpoint("get_session_memory_value", "GET", "mem session get"),
    Endpoint("get_env_info", "GET", "env"),
    Endpoint("get_tools_info", "GET", "tools info"),
)
"""Operations on toolsets, tools, files and memory. Hints name the first of a verb."""

for _endpoint in reversed(ENDPOINTS):
    register_endpoint(_endpoint.verb, _endpoint.name)


def body_hint(path: str) -> str:
    """Return how a body that is no JSON is sent to a path; "" if it takes none."""
    taken = next((one.takes for one in ENDPOINTS if one.path == path), "")
    return f"Send a file with the content type {taken}." if taken else ""


def get_verb(name: str) -> Verb:
    """Return the verb that an endpoint names."""
    verb = find_verb(name)
    if verb is None:
        raise LookupError(f"{name} is not a verb")
    return verb


def choose_verb(endpoint: Endpoint, arguments: dict[str, Any]) -> tuple[Verb, dict[str, Any]]:
    """Return the verb of a request, and its arguments.

    Raises:
        Invalid: if the argument that chooses the verb is neither true nor false, or if a GET has
            one with which the verb changes something.
    """
    name, given = endpoint.verb, dict(endpoint.defaults) | arguments
    if changing := next((one for one in endpoint.leaves_out if one in given), ""):
        raise Invalid(
            f"{changing}: a GET changes nothing.",
            hint=f"POST it to {API_PREFIX}/verbs/{get_verb(name).path}.",
        )
    if endpoint.switched_off_by:
        is_on = given.pop(endpoint.switched_off_by, True)
        if not isinstance(is_on, bool):
            raise Invalid(f"{endpoint.switched_off_by}: must be true or false.")
        name = name if is_on else endpoint.switched_off
    return get_verb(name), given


def read_query(verb: Verb, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the arguments of a GET; `room` is not one of them.

    A value is text, and JSON where the argument is a number, a truth value or a list.

    Raises:
        Invalid: if an argument is given twice.
    """
    properties = verb.input_schema.get("properties", {})
    found: dict[str, Any] = {}
    for name, value in query:
        if name == "room":
            continue
        if name in found:
            raise Invalid(f"{name}: must be given once.")
        found[name] = value if _takes_text(properties.get(name, {})) else _read_json(value)
    return found


def _takes_text(schema: Mapping[str, Any]) -> bool:
    options = schema.get("anyOf", (schema,))
    return any(option.get("type", "string") == "string" for option in options)


def _read_json(value: str) -> Any:
    try:
        check_json_size(value)
        return json.loads(value)
    except (ValueError, RecursionError):
        return value  # the check of the arguments refuses it by its name
