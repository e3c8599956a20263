"""The manifest of a toolset, `toolset.yaml`: tools, servers and requirements.

A tool has a renderer either in `tool_overrides`, or in `tools[].renderer`, which is an older form
of the same. Where both name one for the same tool, that of `tool_overrides` counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from sshwarma.common.limits import (
    MAX_COMMAND_WORDS,
    MAX_DESCRIPTION_CHARACTERS,
    MAX_RETENTION_ACTIONS,
    MAX_SERVER_VALUE_CHARACTERS,
    MAX_SERVER_VARIABLES,
    MAX_TITLE_CHARACTERS,
    MAX_TOOLSET_OVERRIDES,
    MAX_TOOLSET_REQUIREMENTS,
    MAX_TOOLSET_SERVERS,
    MAX_TOOLSET_TOOL_ID_CHARACTERS,
    MAX_TOOLSET_TOOLS,
    MAX_URL_CHARACTERS,
)
from sshwarma.common.validation_text import format_given
from sshwarma.settings.section import NAME_PATTERN, NAME_RULE
from sshwarma.toolsets.renderers import RendererName
from sshwarma.workspaces.paths import find_unsafe_character
from sshwarma.world.leave_out import SHORT_HINT, check_action, parse_policy

MANIFEST_VERSION: Final = "1"

TOOL_ID_PATTERN: Final = re.compile(
    rf"[a-z0-9][a-z0-9_-]{{0,{MAX_TOOLSET_TOOL_ID_CHARACTERS - 1}}}"
)
TOOL_ID_RULE: Final = (
    "a lower-case letter or a digit, then lower-case letters, digits, - or _,"
    f" at most {MAX_TOOLSET_TOOL_ID_CHARACTERS} characters"
)
"""The form of the id of a tool, in words."""

ENTRYPOINT_PATTERN: Final = re.compile(
    r"(?P<module>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)"
    r":(?P<function>[A-Za-z_][A-Za-z0-9_]*)"
)
MAX_ENTRYPOINT_CHARACTERS: Final = 255
_TARGET_PATTERN: Final = re.compile(rf"(?:{NAME_PATTERN.pattern}:)?[!-9;-~]{{1,128}}")
_VERSION_PATTERN: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")
_VARIABLE_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HEADER_PATTERN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_URL_PATTERN: Final = re.compile(r"https?://[^\s/?#@]+(?:[/?#]\S*)?|\$\{[A-Za-z_]\w*\}\S*")
_PIN_PATTERN: Final = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?"
    r"(?:\[[A-Za-z0-9._-]+(?:,[A-Za-z0-9._-]+)*\])?"
    r"==(?:[0-9]+!)?[0-9]+(?:\.[0-9]+)*[A-Za-z0-9._+-]{0,40}"
)


def _limit(most: int) -> Callable[[Any], Any]:
    """Return a check of a list's length that comes before that of its entries."""

    def check(values: Any) -> Any:
        if isinstance(values, list | tuple) and len(values) > most:
            raise ValueError(f"must have at most {most} entries (got {len(values)})")
        return values

    return check


def _match(pattern: re.Pattern[str], must: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"{must} (got {format_given(text)})")
        return text

    return check


def _check_title(text: str) -> str:
    if not text.strip() or text != text.strip():
        raise ValueError("must not be blank, or begin or end with a blank")
    if problem := find_unsafe_character(text):
        raise ValueError(problem)
    return text


def _check_manifest_version(value: Any) -> Any:
    if value != MANIFEST_VERSION:
        raise ValueError(f'must be "{MANIFEST_VERSION}", in quotes (got {format_given(value)})')
    return value


def _check_names(pattern: re.Pattern[str], what: str) -> Callable[[dict[str, str]], dict[str, str]]:
    def check(values: dict[str, str]) -> dict[str, str]:
        for name in values:
            if not pattern.fullmatch(name):
                raise ValueError(f"{format_given(name)} is no name of {what}")
        return values

    return check


def _check_header_values(values: dict[str, str]) -> dict[str, str]:
    for name, value in values.items():
        if not re.fullmatch(r"[\x20-\x7e]*", value):
            raise ValueError(f"the value of {name} must be one line of ASCII")
    return values


def _check_url(url: str) -> str:
    if not _URL_PATTERN.fullmatch(url):
        raise ValueError(
            "must be an address such as https://mcp.example.org/mcp, without a user name"
        )
    return url


def _check_command(command: str) -> str:
    if command != command.strip() or re.search(r"\s", command):
        raise ValueError("must be one program, without blanks: its arguments stand in args")
    return command


def _check_policy(text: str) -> str:
    try:
        parse_policy(text)
    except ValueError as error:
        raise ValueError(f"{error} ({SHORT_HINT.rstrip('.')})") from None
    return text


def _check_actions(policies: dict[str, str]) -> dict[str, str]:
    for name in policies:
        check_action(name)
    return policies


def _check_pins(pins: tuple[str, ...]) -> tuple[str, ...]:
    seen: set[str] = set()
    for pin in pins:
        name = re.sub(r"[-_.]+", "-", re.split(r"[\[=]", pin)[0]).lower()
        if name in seen:
            raise ValueError(f"{name} is there twice")
        seen.add(name)
    return pins


NamespaceId: TypeAlias = Annotated[
    str, AfterValidator(_match(NAME_PATTERN, f"must be {NAME_RULE}"))
]
"""The id of a toolset or of a server, each of which is a namespace."""

ToolId: TypeAlias = Annotated[
    str, AfterValidator(_match(TOOL_ID_PATTERN, f"must be {TOOL_ID_RULE}"))
]
Title: TypeAlias = Annotated[
    str,
    Field(min_length=1, max_length=MAX_TITLE_CHARACTERS),
    AfterValidator(_check_title),
]
Description: TypeAlias = Annotated[str, Field(max_length=MAX_DESCRIPTION_CHARACTERS)]
Pin: TypeAlias = Annotated[
    str, AfterValidator(_match(_PIN_PATTERN, "must be exact, such as humanize==4.15.0"))
]
PolicyText: TypeAlias = Annotated[str, Field(max_length=64), AfterValidator(_check_policy)]
"""What models read of a tool's calls once their turn is over, such as `SHORT 500`."""

ServerValue: TypeAlias = Annotated[str, Field(max_length=MAX_SERVER_VALUE_CHARACTERS)]


class _ManifestPart(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ToolEntry(_ManifestPart):
    """A tool; its function says what the manifest leaves out.

    `renderer` is the older form of a renderer in `tool_overrides`, with its name as `type`.
    `leave_out_per_action` has the policies of calls by their argument `action`.
    """

    id: ToolId
    entrypoint: Annotated[
        str,
        Field(max_length=MAX_ENTRYPOINT_CHARACTERS),
        AfterValidator(
            _match(ENTRYPOINT_PATTERN, "must be MODULE:FUNCTION, such as tools.files:write_file")
        ),
    ]
    name: Title | None = None
    description: Description | None = None
    input_schema: dict[str, Any] | None = None
    requires_confirmation: bool | None = None
    renderer: dict[str, Any] | None = None
    leave_out: PolicyText | None = None
    leave_out_per_action: (
        Annotated[
            dict[str, PolicyText],
            Field(max_length=MAX_RETENTION_ACTIONS),
            AfterValidator(_check_actions),
        ]
        | None
    ) = None


class ToolOverride(_ManifestPart):
    """What differs for a tool of the toolset, or of one of its servers.

    `tool_id` is the id of a tool, `TOOLSET:TOOL`, or `SERVER:NAME`.
    """

    tool_id: Annotated[
        str, AfterValidator(_match(_TARGET_PATTERN, "must be TOOL, TOOLSET:TOOL or SERVER:TOOL"))
    ]
    renderer: RendererName | None = None
    renderer_config: dict[str, Any] | None = None
    name_override: Title | None = None
    description_override: Description | None = None
    requires_confirmation: bool | None = None
    enabled: bool | None = None


class ServerEntry(_ManifestPart):
    """An MCP server: a command, or an address.

    `network` says whether a command needs the network. `server_type` is by default `stdio` for a
    command and `streamable-http` for an address.
    """

    id: NamespaceId
    server_type: Literal["stdio", "sse", "streamable-http"] | None = None
    command: (
        Annotated[
            str,
            Field(min_length=1, max_length=MAX_SERVER_VALUE_CHARACTERS),
            AfterValidator(_check_command),
        ]
        | None
    ) = None
    args: Annotated[
        tuple[ServerValue, ...], Field(strict=False), BeforeValidator(_limit(MAX_COMMAND_WORDS))
    ] = ()
    env: Annotated[
        dict[str, ServerValue],
        Field(max_length=MAX_SERVER_VARIABLES),
        AfterValidator(_check_names(_VARIABLE_PATTERN, "a variable")),
    ] = Field(default_factory=dict)
    url: Annotated[str, Field(max_length=MAX_URL_CHARACTERS), AfterValidator(_check_url)] | None = (
        None
    )
    headers: Annotated[
        dict[str, ServerValue],
        Field(max_length=MAX_SERVER_VARIABLES),
        AfterValidator(_check_names(_HEADER_PATTERN, "a header")),
        AfterValidator(_check_header_values),
    ] = Field(default_factory=dict)
    network: bool = False
    requires_confirmation: bool | None = None

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("must have one of command and url")
        if self.url is None and self.headers:
            raise ValueError("headers belong to a server with a url")
        if self.command is None and (self.args or self.env or self.network):
            raise ValueError("args, env and network belong to a server with a command")
        if (self.kind == "stdio") != (self.url is None):
            raise ValueError(
                "server_type must be stdio with a command, sse or streamable-http with a url"
            )
        return self

    @property
    def kind(self) -> Literal["stdio", "sse", "streamable-http"]:
        """The transport, also where the manifest does not say."""
        return self.server_type or ("stdio" if self.url is None else "streamable-http")


class ToolsetManifest(_ManifestPart):
    """A whole manifest; `check_manifest` compares its parts with each other."""

    manifest_version: Annotated[str, BeforeValidator(_check_manifest_version)]
    id: NamespaceId
    name: Title
    version: Annotated[
        str,
        AfterValidator(
            _match(_VERSION_PATTERN, "must have 1 to 64 letters, digits, and any of . + _ -")
        ),
    ]
    description: Description = ""
    tools: Annotated[
        tuple[ToolEntry, ...], Field(strict=False), BeforeValidator(_limit(MAX_TOOLSET_TOOLS))
    ] = ()
    tool_overrides: Annotated[
        tuple[ToolOverride, ...],
        Field(strict=False),
        BeforeValidator(_limit(MAX_TOOLSET_OVERRIDES)),
    ] = ()
    mcp_servers: Annotated[
        tuple[ServerEntry, ...], Field(strict=False), BeforeValidator(_limit(MAX_TOOLSET_SERVERS))
    ] = ()
    requirements: Annotated[
        tuple[Pin, ...],
        Field(strict=False),
        BeforeValidator(_limit(MAX_TOOLSET_REQUIREMENTS)),
        AfterValidator(_check_pins),
    ] = ()
