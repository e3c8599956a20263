"""`[[mcp]]`: one MCP server whose tools can be equipped."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from sshwarma.common.secret_detection import has_key_prefix, looks_like_key
from sshwarma.settings.addresses import check_web_url
from sshwarma.settings.section import SettingsSection

_SECRET_NAME: Final = re.compile(
    r"auth(?!or(?!i[sz]))|token|secret|passw|cookie|credential|(^|[-_])key", re.IGNORECASE
)
_VARIABLE_REFERENCE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


def _check_server_url(value: str) -> str:
    try:
        return check_web_url(value)
    except ValueError as error:
        if "key_env" in str(error):
            raise ValueError("a secret does not belong into an address: send it in a header, as "
                             "${NAME}") from error  # fmt: skip
        raise


def _check_command_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """A command is stored and can be shown, too, and is in the system's list of processes."""
    for word in words:
        name, sign, value = word.partition("=")
        told = sign and _SECRET_NAME.search(name) and looks_like_key(value)
        if has_key_prefix(word) or told:
            raise ValueError(
                "a word of the command looks like a secret: put it into the environment of the "
                "server, and give it to the command with env, as ${NAME}"
            )
    return words


def _check_secret_values(values: dict[str, str]) -> dict[str, str]:
    """What is set here is stored and can be shown, so a secret may only be pointed at."""
    for name, value in values.items():
        if _SECRET_NAME.search(name) and value and not _VARIABLE_REFERENCE.search(value):
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


def _check_issuer_url(value: str) -> str:
    return check_web_url(value) if value else value


class McpSettings(SettingsSection):
    """One MCP server whose tools can be equipped; `[[mcp]]` in the file. `${NAME}` in headers and
    env is read from the environment when it is connected to, and neither stored nor shown."""

    model_config = ConfigDict(hide_input_in_errors=True)

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_-]{0,31}$", description="The namespace of its tools: NAME:tool."
    )
    command: Annotated[tuple[str, ...], AfterValidator(_check_command_words)] = Field(
        (), max_length=100, description="The program to start and its arguments; no shell reads it."
    )
    url: Annotated[str, AfterValidator(_check_server_url)] | None = Field(
        None, description="Where it is, if it is not started here."
    )
    sse: bool = Field(False, description="Speak the older HTTP+SSE transport to the url.")
    headers: Annotated[dict[str, str], AfterValidator(_check_secret_values)] = Field(
        {}, description="HTTP headers to send; secrets as ${NAME}."
    )
    env: Annotated[dict[str, str], AfterValidator(_check_secret_values)] = Field(
        {}, description="The program's environment beside PATH, HOME and LANG; secrets as ${NAME}."
    )
    cwd: Path | None = Field(
        None, description="Where the program starts; a folder of its own in data_dir if left out."
    )
    memory_mib: int = Field(
        4096, ge=32, le=1_048_576, description="MiB of data each process of the program may have."
    )
    oauth_client_id: str = Field(
        "", max_length=500, description="How the authorization server knows us, if we are to say."
    )
    oauth_client_secret: Annotated[str, AfterValidator(_check_variable_reference)] = Field(
        "", description="What proves that, as ${NAME}; it goes to `oauth_issuer` alone."
    )
    oauth_issuer: Annotated[str, AfterValidator(_check_issuer_url)] = Field(
        "", description="The authorization server to sign in by, and no other."
    )
    oauth_scope: str = Field(
        "",
        max_length=1_000,
        pattern=r"^[!#-\[\]-~ ]*$",
        description="The rights to ask for, in place of those the server says it needs.",
    )
    oauth_machine: bool = Field(
        False, description="Sign in as the client itself, by its id and secret, without a person."
    )
    allow_private: bool = Field(
        False, description="Whether the url may lead to this machine or a private network."
    )
    trust: bool = Field(
        False, description="Take new and changed tools as they come, without an admin's approval."
    )
    call_seconds: float = Field(60, gt=0, le=1800, description="The longest a call may take.")
    start_seconds: float = Field(
        60, gt=0, le=600, description="A server that is not ready by then has failed."
    )
    calls_at_once: int = Field(
        10, ge=1, le=100, description="Calls it works on at once; 50 more may wait."
    )
    max_tools: int = Field(128, ge=1, le=2000, description="Tools taken of it, the first it lists.")

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if bool(self.command) == (self.url is not None):
            raise ValueError("give a command or a url, and not both")
        if self.url is None and (self.headers or self.sse or self.allow_private):
            raise ValueError("headers, sse and allow_private belong to a url")
        oauth = (self.oauth_client_id, self.oauth_issuer, self.oauth_scope, self.oauth_machine)
        if (any(oauth) or self.oauth_client_secret) and (self.url is None or self.has_key):
            raise ValueError("what begins with oauth belongs to a url without an Authorization")
        if self.oauth_client_secret and not (self.oauth_client_id and self.oauth_issuer):
            raise ValueError("oauth_client_secret needs oauth_client_id and oauth_issuer")
        if self.oauth_machine and not self.oauth_client_secret:
            raise ValueError("oauth_machine needs oauth_client_secret")
        if self.url is not None and (self.env or self.cwd is not None):
            raise ValueError("env and cwd belong to a command")
        if any("\0" in word for word in self.command):
            raise ValueError("a word of the command has a NUL in it")
        return self

    @property
    def has_key(self) -> bool:
        """Whether what lets us in is in the headers, so that there is nothing to sign in to."""
        return any(name.lower() == "authorization" for name in self.headers)
