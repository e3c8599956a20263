"""`[[mcp]]`: one MCP server whose tools can be equipped."""

from __future__ import annotations

import re
from typing import Annotated, Final, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from sshwarma.common.limits import (
    CALL_TIMEOUT_SECONDS,
    DEFAULT_SERVER_CALLS,
    DEFAULT_SERVER_MEMORY_MIB,
    DEFAULT_SERVER_START_SECONDS,
    DEFAULT_SERVER_TOOLS,
    MAX_CALL_TIMEOUT_SECONDS,
    MAX_CLIENT_ID_CHARACTERS,
    MAX_COMMAND_WORDS,
    MAX_OAUTH_SCOPE_CHARACTERS,
    MAX_QUEUED_CALLS,
    MAX_SERVER_CALLS,
    MAX_SERVER_MEMORY_MIB,
    MAX_SERVER_START_SECONDS,
    MAX_SERVER_TOOLS,
    MIN_SERVER_MEMORY_MIB,
)
from sshwarma.common.secret_detection import has_key_prefix, is_secret_name, looks_like_key
from sshwarma.settings.addresses import check_web_url
from sshwarma.settings.paths import SettingsPath
from sshwarma.settings.section import SettingsSection, TableName

_VARIABLE_REFERENCE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")

_SCOPES: Final = re.compile(r"[!#-\[\]-~ ]*")


def _check_server_url(value: str) -> str:
    try:
        return check_web_url(value)
    except ValueError as error:
        if "key_env" in str(error):
            raise ValueError("a URL must not contain a secret: send it in a header, such as "
                             "${NAME}") from error  # fmt: skip
        raise


def _check_command_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse secrets in a command: it is stored, shown, and in the process list."""
    for word in words:
        name, sign, value = word.partition("=")
        is_key = sign and is_secret_name(name) and looks_like_key(value)
        if has_key_prefix(word) or is_key:
            raise ValueError(
                "a word of the command looks like a secret: put it into the environment of the "
                "server, and pass it to the command with env, as ${NAME}"
            )
    return words


def _check_secret_values(values: dict[str, str]) -> dict[str, str]:
    """Refuse secrets in plain text: values are stored and can be shown."""
    for name, value in values.items():
        if is_secret_name(name) and value and not _VARIABLE_REFERENCE.search(value):
            raise ValueError(
                f"{name} looks like a secret: put it into the environment of the server "
                f"and write ${{NAME}}"
            )
        if not name.isascii() or not name.isprintable() or not value.isprintable():
            raise ValueError(f"{name!a} or its value has characters that cannot be sent")
    return values


def _check_variable_reference(value: str) -> str:
    if value and not _VARIABLE_REFERENCE.fullmatch(value):
        raise ValueError(
            "put the secret into the environment of the server and write ${NAME} in its place"
        )
    return value


def _check_scopes(value: str) -> str:
    if not _SCOPES.fullmatch(value):
        raise ValueError("must be OAuth scopes separated by spaces, without quotes or backslashes")
    return value


def _check_issuer_url(value: str) -> str:
    return check_web_url(value) if value else value


class McpSettings(SettingsSection):
    """One MCP server whose tools can be equipped; `[[mcp]]` in the file.

    `${NAME}` in headers and env is read from the environment on connecting, and neither stored nor
    shown.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    name: TableName = Field(
        description="Name of the server, and namespace of its tools: NAME:tool."
    )
    command: Annotated[tuple[str, ...], AfterValidator(_check_command_words)] = Field(
        (),
        max_length=MAX_COMMAND_WORDS,
        description="Program to start and its arguments, without a shell; ${NAME} is read from the "
        "environment, and stands in the list of processes then.",
    )
    url: Annotated[str, AfterValidator(_check_server_url)] | None = Field(
        None, description="URL of the server, if it is not a command."
    )
    sse: bool = Field(False, description="Use the older HTTP+SSE transport for the url.")
    headers: Annotated[dict[str, str], AfterValidator(_check_secret_values)] = Field(
        {}, description="HTTP headers to send; secrets as ${NAME}."
    )
    env: Annotated[dict[str, str], AfterValidator(_check_secret_values)] = Field(
        {}, description="The program's environment besides PATH, HOME, LANG; secrets as ${NAME}."
    )
    cwd: SettingsPath | None = Field(
        None,
        description="Working directory of the program (default: a separate directory in data_dir).",
    )
    memory_mib: int = Field(
        DEFAULT_SERVER_MEMORY_MIB,
        ge=MIN_SERVER_MEMORY_MIB,
        le=MAX_SERVER_MEMORY_MIB,
        description="Memory limit of each process of the program, in MiB.",
    )
    oauth_client_id: str = Field(
        "", max_length=MAX_CLIENT_ID_CHARACTERS, description="OAuth client id, if pre-registered."
    )
    oauth_client_secret: Annotated[str, AfterValidator(_check_variable_reference)] = Field(
        "", description="OAuth client secret, as ${NAME}; sent to `oauth_issuer` only."
    )
    oauth_issuer: Annotated[str, AfterValidator(_check_issuer_url)] = Field(
        "", description="Authorization server to sign in with; no other is used."
    )
    oauth_scope: Annotated[str, AfterValidator(_check_scopes)] = Field(
        "",
        max_length=MAX_OAUTH_SCOPE_CHARACTERS,
        description="OAuth scopes to request instead of those the server names.",
    )
    oauth_machine: bool = Field(
        False, description="Sign in with the client's id and secret, without a person."
    )
    allow_private: bool = Field(
        False, description="Allow a url on this machine or in a private network."
    )
    trust: bool = Field(
        False, description="Accept new and changed tools without an admin's approval."
    )
    call_seconds: float = Field(
        CALL_TIMEOUT_SECONDS,
        gt=0,
        le=MAX_CALL_TIMEOUT_SECONDS,
        description="Timeout of a call, in seconds.",
    )
    start_seconds: float = Field(
        DEFAULT_SERVER_START_SECONDS,
        gt=0,
        le=MAX_SERVER_START_SECONDS,
        description="Timeout for a server to get ready, in seconds.",
    )
    calls_at_once: int = Field(
        DEFAULT_SERVER_CALLS,
        ge=1,
        le=MAX_SERVER_CALLS,
        description=f"Concurrent calls to the server; {MAX_QUEUED_CALLS} more may wait.",
    )
    max_tools: int = Field(
        DEFAULT_SERVER_TOOLS,
        ge=1,
        le=MAX_SERVER_TOOLS,
        description="Maximum number of tools taken from its list.",
    )

    @model_validator(mode="after")
    def _check_command_or_url(self) -> Self:
        if not self.command and self.url is None:
            raise ValueError("needs a command or a url")
        if self.command and self.url is not None:
            raise ValueError("give a command or a url, not both")
        if self.url is None and (self.headers or self.sse or self.allow_private):
            raise ValueError("headers, sse and allow_private need a url, not a command")
        oauth = (self.oauth_client_id, self.oauth_issuer, self.oauth_scope, self.oauth_machine)
        if (any(oauth) or self.oauth_client_secret) and (self.url is None or self.has_key):
            raise ValueError(
                "oauth_client_id, oauth_client_secret, oauth_issuer, oauth_scope and oauth_machine"
                " need a url, and no Authorization header"
            )
        if self.oauth_client_secret and not (self.oauth_client_id and self.oauth_issuer):
            raise ValueError("oauth_client_secret needs oauth_client_id and oauth_issuer")
        if self.oauth_machine and not self.oauth_client_secret:
            raise ValueError("oauth_machine needs oauth_client_secret")
        if self.url is not None and (self.env or self.cwd is not None):
            raise ValueError("env and cwd need a command, not a url")
        if any("\0" in word for word in self.command):
            raise ValueError("a word of the command contains a NUL character")
        return self

    @property
    def has_key(self) -> bool:
        """Whether the headers hold the credentials, so that no sign-in is needed."""
        return any(name.lower() == "authorization" for name in self.headers)
