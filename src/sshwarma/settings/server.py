"""Sections about the server itself: doors, registration, limits, search, logs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from sshwarma.common.limits import DEFAULT_LINE_BYTES
from sshwarma.settings.addresses import check_address, check_address_or_off, check_base_url
from sshwarma.settings.section import SettingsSection

RegistrationMode = Literal["closed", "invite", "open"]
ServerRole = Literal["owner", "admin", "member", "guest"]


class SshSettings(SettingsSection):
    listen: Annotated[str, AfterValidator(check_address)] = Field(
        "127.0.0.1:2222", description="HOST:PORT the ssh door listens on; port 0 picks a free one."
    )
    login_seconds: float = Field(
        20, gt=0, le=600, description="A connection that has not proven a key by then is closed."
    )
    keepalive_seconds: float = Field(
        15,
        gt=0,
        le=600,
        description="A silent link is asked this often; it is dropped after three.",
    )
    max_connections: int = Field(2000, gt=0, description="Live ssh connections in all.")
    max_connections_per_address: int = Field(
        200, gt=0, description="Live ssh connections from one address."
    )
    max_connections_per_key: int = Field(20, gt=0, description="Live connections of one key.")
    max_pending: int = Field(100, gt=0, description="Connections still logging in, in all.")
    max_pending_per_address: int = Field(
        50, gt=0, description="Connections still logging in, from one address."
    )
    limit_loopback: bool = Field(
        True, description="Whether the limits per address count 127.0.0.1 too; off for load tests."
    )


class HttpSettings(SettingsSection):
    listen: Annotated[str, AfterValidator(check_address_or_off)] = Field(
        "127.0.0.1:2280", description="HOST:PORT of /healthz, /metrics, /api and /mcp, or 'off'."
    )
    hosts: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9.\-\[\]:]{1,253}$")], ...] = Field(
        (),
        description="Names by which /mcp is reached from elsewhere, as world.example.org; it"
        " answers to 127.0.0.1, localhost and [::1] always, and to no other name.",
    )
    public_url: Annotated[str, AfterValidator(check_base_url)] = Field(
        "",
        description="Where this port is reached from people's browsers, as"
        " https://world.example.org: sign-ins to MCP servers come back there.",
    )


class RegistrationSettings(SettingsSection):
    mode: RegistrationMode = Field(
        "closed",
        description="Who may come in with a new key: nobody, holders of an invite, or anyone.",
    )
    role: ServerRole = Field("member", description="The role of agents who register by `open`.")
    per_hour_per_address: int = Field(
        10, gt=0, description="New agents from one address in an hour."
    )


class LimitSettings(SettingsSection):
    line_bytes: int = Field(
        DEFAULT_LINE_BYTES, ge=256, le=1_048_576, description="Longest line one may say."
    )
    lines_per_10_seconds: int = Field(
        40, gt=0, description="Lines one agent may enter in ten seconds, over all links."
    )
    requests_per_10_seconds: int = Field(
        400, gt=0, description="Requests one agent may make over MCP in ten seconds."
    )
    thing_bytes: int = Field(1_048_576, gt=0, description="Largest text a data thing may hold.")
    stdin_bytes: int = Field(
        1_048_576, gt=0, description="Most that is read from a pipe into one command."
    )
    bag_things: int = Field(10_000, gt=0, description="Most things that one bag may hold.")
    mention_hops: int = Field(
        3, ge=0, le=20, description="How often models may call each other in a row."
    )


class SearchSettings(SettingsSection):
    threshold: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Likeness below which /find shows no namespace; the embedder's own if not set.",
    )


class LogSettings(SettingsSection):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"
