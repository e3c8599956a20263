"""Sections about the server itself: doors, registration, limits, search, logs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from sshwarma.common.limits import DEFAULT_LINE_BYTES, MAX_KEEPALIVE_MISSES
from sshwarma.common.units import MIB
from sshwarma.settings.addresses import (
    check_address,
    check_address_or_off,
    check_base_url,
    check_host_name,
)
from sshwarma.settings.section import SettingsSection

RegistrationMode = Literal["closed", "invite", "open"]
RegistrationRole = Literal["admin", "member", "guest"]


class SshSettings(SettingsSection):
    """`[ssh]`: the ssh server and its limits on connections."""

    listen: Annotated[str, AfterValidator(check_address)] = Field(
        "127.0.0.1:2222", description="HOST:PORT of the ssh server; port 0 picks a free port."
    )
    login_seconds: float = Field(20, gt=0, le=600, description="Timeout of a login, in seconds.")
    keepalive_seconds: float = Field(
        15,
        gt=0,
        le=600,
        description="Seconds between keepalives; a link that misses"
        f" {MAX_KEEPALIVE_MISSES} is dropped.",
    )
    max_connections: int = Field(2000, gt=0, description="Maximum number of ssh connections.")
    max_connections_per_address: int = Field(
        200, gt=0, description="Maximum number of ssh connections from one address."
    )
    max_connections_per_key: int = Field(
        20, gt=0, description="Maximum number of connections of one key."
    )
    max_pending: int = Field(
        100, gt=0, description="Maximum number of connections that are logging in."
    )
    max_pending_per_address: int = Field(
        50, gt=0, description="Maximum number of connections from one address that are logging in."
    )
    limit_loopback: bool = Field(
        True, description="Apply the limits per address to 127.0.0.1 too; off for load tests."
    )


class HttpSettings(SettingsSection):
    """`[http]`: the HTTP server."""

    listen: Annotated[str, AfterValidator(check_address_or_off)] = Field(
        "127.0.0.1:2280", description="HOST:PORT of /healthz, /metrics, /api and /mcp, or 'off'."
    )
    hosts: tuple[Annotated[str, AfterValidator(check_host_name)], ...] = Field(
        (),
        description="Further host names that /mcp accepts, such as world.example.org. It"
        " always accepts 127.0.0.1, localhost and [::1], and refuses other names.",
    )
    public_url: Annotated[str, AfterValidator(check_base_url)] = Field(
        "",
        description="URL of this port for people's browsers, such as"
        " https://world.example.org: sign-ins to MCP servers return there.",
    )


class RegistrationSettings(SettingsSection):
    """`[registration]`: who may register a new key."""

    mode: RegistrationMode = Field(
        "closed",
        description="Who may register a new key: nobody, holders of an invite, or anyone.",
    )
    role: RegistrationRole = Field(
        "member", description="Role of agents who register when mode is `open`."
    )
    per_hour_per_address: int = Field(
        10, gt=0, description="Maximum number of new agents from one address in an hour."
    )


class LimitSettings(SettingsSection):
    """`[limits]`: limits of agents and of their things."""

    line_bytes: int = Field(
        DEFAULT_LINE_BYTES,
        ge=256,
        le=MIB,
        description="Maximum length of a line or message, in bytes, at every door.",
    )
    lines_per_10_seconds: int = Field(
        40,
        gt=0,
        description="Maximum number of lines of one agent in ten seconds, on all connections.",
    )
    requests_per_10_seconds: int = Field(
        400, gt=0, description="Maximum number of MCP requests of one agent in ten seconds."
    )
    thing_bytes: int = Field(
        MIB, gt=0, description="Maximum size of the text of a data thing, in bytes."
    )
    stdin_bytes: int = Field(
        MIB, gt=0, description="Maximum number of bytes that one command reads from stdin."
    )
    text_mib_per_hour: int = Field(
        32,
        gt=0,
        description="Maximum amount of text that one agent stores in an hour, in MiB: messages,"
        " notes, data, scripts and arguments of tools.",
    )
    bag_things: int = Field(10_000, gt=0, description="Maximum number of things in one bag.")
    turns_per_question: int = Field(
        8,
        ge=1,
        le=50,
        description="Maximum number of answers that one message starts, when models call others.",
    )


class SearchSettings(SettingsSection):
    """`[search]`: search of namespaces."""

    threshold: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Minimum score that /find shows (default: 0.05; 0.15 with a sentence model).",
    )


class LogSettings(SettingsSection):
    """`[log]`: level and format of the server's log."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Minimum severity of messages that are logged."
    )
    format: Literal["console", "json"] = Field(
        "console", description="console: lines for people; json: one JSON object per line."
    )
