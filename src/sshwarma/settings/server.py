"""Sections about the server itself: doors, registration, limits, search, logs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from sshwarma.common.durations import parse_duration
from sshwarma.common.limits import (
    DEFAULT_BACKUPS,
    DEFAULT_BAG_THINGS,
    DEFAULT_FILES_MIB,
    DEFAULT_FIND_THRESHOLD,
    DEFAULT_FREE_FAILED_LOGINS,
    DEFAULT_HTTP_CONNECTIONS_PER_ADDRESS,
    DEFAULT_KEEPALIVE_SECONDS,
    DEFAULT_LINE_BYTES,
    DEFAULT_LINES_PER_WINDOW,
    DEFAULT_LOGIN_SECONDS,
    DEFAULT_NEW_AGENTS_PER_HOUR,
    DEFAULT_PENDING_LOGINS,
    DEFAULT_PENDING_LOGINS_PER_ADDRESS,
    DEFAULT_REQUESTS_PER_WINDOW,
    DEFAULT_SSH_CONNECTIONS,
    DEFAULT_SSH_CONNECTIONS_PER_ADDRESS,
    DEFAULT_SSH_CONNECTIONS_PER_KEY,
    DEFAULT_STDIN_BYTES,
    DEFAULT_TEXT_MIB,
    DEFAULT_THING_BYTES,
    DEFAULT_TURNS_PER_QUESTION,
    MAX_BACKUP_DAYS,
    MAX_BACKUPS,
    MAX_HTTP_CONNECTIONS,
    MAX_KEEPALIVE_MISSES,
    MAX_KEEPALIVE_SECONDS,
    MAX_LINE_BYTES,
    MAX_LOGIN_SECONDS,
    MAX_RETENTION_DAYS,
    MAX_TURNS_PER_QUESTION,
    MIN_BACKUP_HOURS,
    MIN_LINE_BYTES,
)
from sshwarma.common.units import DAY_SECONDS, HOUR_SECONDS
from sshwarma.settings.addresses import (
    check_address,
    check_address_or_off,
    check_base_url,
    check_host_name,
    check_network,
)
from sshwarma.settings.paths import SettingsPath
from sshwarma.settings.section import SettingsSection

RegistrationMode = Literal["closed", "invite", "open"]
RegistrationRole = Literal["admin", "member", "guest"]


class SshSettings(SettingsSection):
    """`[ssh]`: the ssh server and its limits on connections."""

    listen: Annotated[str, AfterValidator(check_address)] = Field(
        "127.0.0.1:2222", description="HOST:PORT of the ssh server; port 0 picks a free port."
    )
    login_seconds: float = Field(
        DEFAULT_LOGIN_SECONDS,
        gt=0,
        le=MAX_LOGIN_SECONDS,
        description="Timeout of a login, in seconds.",
    )
    keepalive_seconds: float = Field(
        DEFAULT_KEEPALIVE_SECONDS,
        gt=0,
        le=MAX_KEEPALIVE_SECONDS,
        description="Seconds between keepalives; a link that misses"
        f" {MAX_KEEPALIVE_MISSES} is dropped.",
    )
    max_connections: int = Field(
        DEFAULT_SSH_CONNECTIONS, gt=0, description="Maximum number of ssh connections."
    )
    max_connections_per_address: int = Field(
        DEFAULT_SSH_CONNECTIONS_PER_ADDRESS,
        gt=0,
        description="Maximum number of ssh connections from one address.",
    )
    max_connections_per_key: int = Field(
        DEFAULT_SSH_CONNECTIONS_PER_KEY,
        gt=0,
        description="Maximum number of connections of one key.",
    )
    max_pending: int = Field(
        DEFAULT_PENDING_LOGINS,
        gt=0,
        description="Maximum number of connections that are logging in.",
    )
    max_pending_per_address: int = Field(
        DEFAULT_PENDING_LOGINS_PER_ADDRESS,
        gt=0,
        description="Maximum number of connections from one address that are logging in.",
    )
    free_failed_logins: int = Field(
        DEFAULT_FREE_FAILED_LOGINS,
        gt=0,
        description="Failed logins of one address before it is shut out; each further one doubles"
        " the time, up to a minute.",
    )
    limit_loopback: bool = Field(
        True, description="Apply the limits per address to 127.0.0.1 too; off for load tests."
    )
    proxy_from: tuple[Annotated[str, AfterValidator(check_network)], ...] = Field(
        (),
        description="Addresses and networks of balancers, such as 10.0.0.5 or 10.0.0.0/24."
        " Connections from there must begin with a header of the PROXY protocol, version 1 or 2,"
        " and count as those of the address that it names. From elsewhere it is refused.",
    )


class HttpSettings(SettingsSection):
    """`[http]`: the HTTP server."""

    listen: Annotated[str, AfterValidator(check_address_or_off)] = Field(
        "127.0.0.1:2280",
        description="HOST:PORT of the console, /healthz, /metrics, /api and /mcp, or 'off'.",
    )
    hosts: tuple[Annotated[str, AfterValidator(check_host_name)], ...] = Field(
        (),
        description="Additional names under which the HTTP server answers, such as"
        " world.example.org. It always answers for addresses, localhost and the name of public_url,"
        " and refuses other names.",
    )
    frame_hosts: tuple[Annotated[str, AfterValidator(check_host_name)], ...] = Field(
        (),
        description="Additional host names whose pages results of tools may embed, such as"
        " grafana.example.org or grafana.example.org:3000. Pages of localhost always may.",
    )
    public_url: Annotated[str, AfterValidator(check_base_url)] = Field(
        "",
        description="URL of this port for people's browsers, such as"
        " https://world.example.org: links to the console begin with it, and sign-ins to MCP"
        " servers return there.",
    )
    max_connections_per_address: int = Field(
        DEFAULT_HTTP_CONNECTIONS_PER_ADDRESS,
        gt=0,
        le=MAX_HTTP_CONNECTIONS,
        description="Maximum number of HTTP connections from one address, or of open requests of"
        " one address that a proxy names.",
    )
    proxy_from: tuple[Annotated[str, AfterValidator(check_network)], ...] = Field(
        (),
        description="Addresses and networks of proxies besides loopback, such as 10.0.0.5: a"
        " request from there is that of the address that X-Forwarded-For names last.",
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
        DEFAULT_NEW_AGENTS_PER_HOUR,
        gt=0,
        description="Maximum number of new agents from one address in an hour.",
    )


class LimitSettings(SettingsSection):
    """`[limits]`: limits of agents and of their things."""

    line_bytes: int = Field(
        DEFAULT_LINE_BYTES,
        ge=MIN_LINE_BYTES,
        le=MAX_LINE_BYTES,
        description="Maximum length of a line or message, in bytes, at every door.",
    )
    lines_per_10_seconds: int = Field(
        DEFAULT_LINES_PER_WINDOW,
        gt=0,
        description="Maximum number of lines of one agent in ten seconds, on all connections.",
    )
    requests_per_10_seconds: int = Field(
        DEFAULT_REQUESTS_PER_WINDOW,
        gt=0,
        description="Maximum number of MCP requests of one agent in ten seconds.",
    )
    thing_bytes: int = Field(
        DEFAULT_THING_BYTES,
        gt=0,
        description="Maximum size of one text (a thing of kind data), in bytes.",
    )
    stdin_bytes: int = Field(
        DEFAULT_STDIN_BYTES,
        gt=0,
        description="Maximum number of bytes that one command reads from stdin.",
    )
    text_mib_per_hour: int = Field(
        DEFAULT_TEXT_MIB,
        gt=0,
        description="Maximum amount of text that one agent stores in an hour, in MiB: messages,"
        " notes, data, scripts and arguments of tools, and what copies of rooms have of these.",
    )
    files_mib_per_hour: int = Field(
        DEFAULT_FILES_MIB,
        gt=0,
        description="Maximum size of the files that one agent stores in an hour, in MiB.",
    )
    bag_things: int = Field(
        DEFAULT_BAG_THINGS, gt=0, description="Maximum number of things in one bag."
    )
    turns_per_question: int = Field(
        DEFAULT_TURNS_PER_QUESTION,
        ge=1,
        le=MAX_TURNS_PER_QUESTION,
        description="Maximum number of answers that one message starts, when models call others.",
    )


class MemorySettings(SettingsSection):
    """`[memory]`: the memory of projects."""

    pin_project: bool = Field(
        True,
        description="Whether all rooms use the project of the directory where the server was"
        " started; if not, each room uses that of its own directory.",
    )


class SearchSettings(SettingsSection):
    """`[search]`: search of namespaces."""

    threshold: float | None = Field(
        None,
        ge=0,
        le=1,
        description=f"Minimum score that /find shows (default: {DEFAULT_FIND_THRESHOLD}).",
    )


def check_backup_interval(value: str) -> str:
    """Return the interval of backups, or `off`.

    Raises:
        ValueError: if it is neither, too short or too long.
    """
    if value == "off":
        return value
    seconds = parse_duration(value)
    if seconds is None:
        raise ValueError(f"must be a duration, such as 12h, 1d or 1w, or off (got {value!r})")
    if not MIN_BACKUP_HOURS * HOUR_SECONDS <= seconds <= MAX_BACKUP_DAYS * DAY_SECONDS:
        raise ValueError(f"must be from {MIN_BACKUP_HOURS}h to {MAX_BACKUP_DAYS}d (got {value!r})")
    return value


class BackupSettings(SettingsSection):
    """`[backup]`: backups that the server makes by itself."""

    every: Annotated[str, AfterValidator(check_backup_interval)] = Field(
        "off",
        description="Time between two backups, from 1h on, such as 12h or 1w; off makes none.",
    )
    keep: int = Field(
        DEFAULT_BACKUPS,
        ge=1,
        le=MAX_BACKUPS,
        description="Number of these backups that are kept; older ones are deleted.",
    )
    directory: SettingsPath | None = Field(
        None, description="Directory of these backups (default: `backups` in data_dir)."
    )


class RetentionSettings(SettingsSection):
    """`[retention]`: what is deleted after some time, and its space on disk."""

    audit_days: int | None = Field(
        None,
        ge=1,
        le=MAX_RETENTION_DAYS,
        description="Days after which rows of the audit are deleted (default: never).",
    )
    deleted_days: int | None = Field(
        None,
        ge=1,
        le=MAX_RETENTION_DAYS,
        description="Days after which deleted things are removed permanently, as by /gc purge"
        " (default: never).",
    )
    vacuum: bool = Field(
        True,
        description="Return the space of what was removed to the disk, in small steps.",
    )


class PluginSettings(SettingsSection):
    """`[plugins]`: tools in Python from folders of the server's machine."""

    load: bool = Field(
        False,
        description="Load the plugins in `tools/` of the directory where the server is started.",
    )
    show_tracebacks: bool = Field(
        False,
        description="Show the traceback when a tool of a plugin fails, not its last line alone.",
    )


class LogSettings(SettingsSection):
    """`[log]`: level and format of the server's log."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Minimum severity of messages that are logged."
    )
    format: Literal["console", "json"] = Field(
        "console", description="console: lines for people; json: one JSON object per line."
    )
