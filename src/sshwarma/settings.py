"""The one Settings model: what an operator can set, from a file, the environment or a flag.

Precedence: command-line flags, then SSHWARMA_* variables (nested fields with a double underscore:
SSHWARMA_SSH__KEEPALIVE_SECONDS), then sshwarma.toml, then the defaults written here.
"""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from sshwarma.keylike import begins_like_key, looks_like_key

RegistrationMode = Literal["closed", "invite", "open"]
ServerRole = Literal["owner", "admin", "member", "guest"]


def xdg(variable: str, fallback: str) -> Path:
    """A base directory of the XDG specification, ours below it. Relative values are ignored, as
    the specification says."""
    value = os.environ.get(variable, "")
    base = Path(value) if value.startswith("/") else Path.home() / fallback
    return base / "sshwarma"


def default_config_file() -> Path:
    """`sshwarma.toml` in the current directory if there is one, else in the XDG config home."""
    here = Path("sshwarma.toml")
    return here if here.exists() else xdg("XDG_CONFIG_HOME", ".config") / "sshwarma.toml"


def split_address(value: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `[V6]:PORT`. Port 0 asks for a free one.

    Raises:
        ValueError: with a sentence that says what is wrong.
    """
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{value!r} is not HOST:PORT, as in 127.0.0.1:2222")
    return host.strip("[]"), int(port)


def _address(value: str) -> str:
    split_address(value)
    return value


def _address_or_off(value: str) -> str:
    return value if value == "off" else _address(value)


def _base_url(value: str) -> str:
    parts = urlsplit(value)
    if value and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("this is not an address as in https://world.example.org")
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError("this address may have no user, query or fragment")
    return value.rstrip("/")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SshSettings(_Section):
    listen: Annotated[str, AfterValidator(_address)] = Field(
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


class HttpSettings(_Section):
    listen: Annotated[str, AfterValidator(_address_or_off)] = Field(
        "127.0.0.1:2280", description="HOST:PORT of /healthz, /metrics, /api and /mcp, or 'off'."
    )
    hosts: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9.\-\[\]:]{1,253}$")], ...] = Field(
        (),
        description="Names by which /mcp is reached from elsewhere, as world.example.org; it"
        " answers to 127.0.0.1, localhost and [::1] always, and to no other name.",
    )
    public_url: Annotated[str, AfterValidator(_base_url)] = Field(
        "",
        description="Where this port is reached from people's browsers, as"
        " https://world.example.org: sign-ins to MCP servers come back there.",
    )


class RegistrationSettings(_Section):
    mode: RegistrationMode = Field(
        "closed",
        description="Who may come in with a new key: nobody, holders of an invite, or anyone.",
    )
    role: ServerRole = Field("member", description="The role of agents who register by `open`.")
    per_hour_per_address: int = Field(
        10, gt=0, description="New agents from one address in an hour."
    )


class LimitSettings(_Section):
    line_bytes: int = Field(16_384, ge=256, le=1_048_576, description="Longest line one may say.")
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


ModelKind = Literal[
    "openai", "openai-responses", "anthropic", "google", "ollama", "llamacpp", "compatible"
]


def _web_address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("this is not an address as in http://127.0.0.1:8080/v1")
    if parts.username or parts.password:
        raise ValueError("a key does not belong into an address: use key_env or key_file")
    if looks_like_key(f"{parts.path}?{parts.query}#{parts.fragment}"):
        raise ValueError("this looks like it holds a key: use key_env or key_file")
    return value


def _server_address(value: str) -> str:
    try:
        return _web_address(value)
    except ValueError as error:
        if "key_env" in str(error):
            raise ValueError("a secret does not belong into an address: send it in a header, as "
                             "${NAME}") from error  # fmt: skip
        raise


def _no_secret_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """A command is stored and can be shown, too, and is in the system's list of processes."""
    for word in words:
        name, sign, value = word.partition("=")
        told = sign and _SECRETIVE.search(name) and looks_like_key(value)
        if begins_like_key(word) or told:
            raise ValueError(
                "a word of the command looks like a secret: put it into the environment of the "
                "server, and give it to the command with env, as ${NAME}"
            )
    return words


def _name_of_variable(value: str) -> str:
    if looks_like_key(value):
        raise ValueError("this looks like a key itself: give the variable's name")
    return value


def _path_of_key(value: Path) -> Path:
    if begins_like_key(str(value)) or (value.name == str(value) and looks_like_key(str(value))):
        raise ValueError("this looks like a key itself: give the path of a file that holds it")
    return value


def _no_key(value: str) -> str:
    if begins_like_key(value):
        raise ValueError("this looks like a key: give key_env or key_file")
    return value


class ModelSettings(_Section):
    """One model that answers when mentioned; `[[models]]` in the file."""

    # Hidden because a key may have been put into the wrong field.
    model_config = ConfigDict(hide_input_in_errors=True, allow_inf_nan=False)

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_-]{0,31}$", description="The agent's name, as in @name."
    )
    kind: ModelKind = Field(description="Who serves it, and so how it is spoken to.")
    model: Annotated[str, AfterValidator(_no_key)] = Field(
        min_length=1, max_length=200, description="What the server calls it."
    )
    base_url: Annotated[str, AfterValidator(_web_address)] | None = Field(
        None, description="Where the server is, if not at the usual place; needed by `compatible`."
    )
    key_env: Annotated[str, AfterValidator(_name_of_variable)] = Field(
        "",
        pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$",
        description="The environment variable that holds the key, if not the usual one.",
    )
    key_file: Annotated[Path, AfterValidator(_path_of_key)] | None = Field(
        None, description="A file with the key that only its owner may read (0600)."
    )
    context_tokens: int | None = Field(
        None, ge=1_000, description="What the model takes in all; more is told to it in short."
    )
    max_output_tokens: int | None = Field(None, gt=0, description="Longest answer of one step.")
    temperature: float | None = Field(None, ge=0, le=2, description="How freely it chooses words.")
    prompt: Annotated[str, AfterValidator(_no_key)] = Field(
        "", max_length=20_000, description="Said to this model before everything else."
    )
    first_token_seconds: float = Field(
        60, gt=0, le=3600, description="A model that has not begun by then has failed."
    )
    stall_seconds: float = Field(
        60, gt=0, le=3600, description="A model silent this long amid its answer has failed."
    )
    turn_steps: int = Field(
        12, ge=1, le=100, description="Times it is asked in one turn; tools are called between."
    )
    turn_seconds: float = Field(
        600, gt=0, le=86_400, description="The longest one turn may take, tools included."
    )
    turn_tokens: int | None = Field(
        1_000_000, gt=0, description="Tokens of one turn, sent and received, over all its steps."
    )
    turn_cost: float | None = Field(
        None, gt=0, description="US dollars that one turn may cost; the price must be known."
    )
    day_tokens: int | None = Field(
        20_000_000, gt=0, description="Tokens of one day (UTC), over all rooms."
    )
    day_cost: float | None = Field(
        None, gt=0, description="US dollars that one day (UTC) may cost; the price must be known."
    )
    price_in: float | None = Field(
        None, ge=0, description="US dollars for a million tokens sent, if not the list price."
    )
    price_out: float | None = Field(
        None, ge=0, description="US dollars for a million tokens received; set both or neither."
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.kind == "compatible" and self.base_url is None:
            raise ValueError(
                "kind `compatible` needs a base_url: where its server is; --url in /model add"
            )
        if self.key_env and self.key_file is not None:
            raise ValueError("give key_env or key_file, not both")
        return self


class FindingSettings(_Section):
    threshold: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Likeness below which /find shows no namespace; the embedder's own if not set.",
    )


_SECRETIVE: Final = re.compile(
    r"auth(?!or(?!i[sz]))|token|secret|passw|cookie|credential|(^|[-_])key", re.IGNORECASE
)
_VARIABLE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


def _no_secrets(values: dict[str, str]) -> dict[str, str]:
    """What is set here is stored and can be shown, so a secret may only be pointed at."""
    for name, value in values.items():
        if _SECRETIVE.search(name) and value and not _VARIABLE.search(value):
            raise ValueError(
                f"{name} looks like a secret: put it into the environment of the server "
                f"and write ${{NAME}}"
            )
        if not name.isascii() or not name.isprintable() or not value.isprintable():
            raise ValueError(f"{name!a} or its value has characters that cannot be sent")
    return values


def _only_pointed_at(value: str) -> str:
    if value and not _VARIABLE.fullmatch(value):
        raise ValueError(
            "put the secret into the environment of the server and write ${NAME} in its place"
        )
    return value


def _issuer(value: str) -> str:
    return _web_address(value) if value else value


class McpSettings(_Section):
    """One MCP server whose tools can be equipped; `[[mcp]]` in the file. `${NAME}` in headers and
    env is read from the environment when it is connected to, and neither stored nor shown."""

    model_config = ConfigDict(hide_input_in_errors=True)

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_-]{0,31}$", description="The namespace of its tools: NAME:tool."
    )
    command: Annotated[tuple[str, ...], AfterValidator(_no_secret_words)] = Field(
        (), max_length=100, description="The program to start and its arguments; no shell reads it."
    )
    url: Annotated[str, AfterValidator(_server_address)] | None = Field(
        None, description="Where it is, if it is not started here."
    )
    sse: bool = Field(False, description="Speak the older HTTP+SSE transport to the url.")
    headers: Annotated[dict[str, str], AfterValidator(_no_secrets)] = Field(
        {}, description="HTTP headers to send; secrets as ${NAME}."
    )
    env: Annotated[dict[str, str], AfterValidator(_no_secrets)] = Field(
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
    oauth_client_secret: Annotated[str, AfterValidator(_only_pointed_at)] = Field(
        "", description="What proves that, as ${NAME}; it goes to `oauth_issuer` alone."
    )
    oauth_issuer: Annotated[str, AfterValidator(_issuer)] = Field(
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


class LogSettings(_Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"


class Settings(BaseSettings):
    """Everything that can be set. `sshwarma config show` prints the values in force."""

    model_config = SettingsConfigDict(
        env_prefix="SSHWARMA_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    data_dir: Path = Field(
        default_factory=lambda: xdg("XDG_DATA_HOME", ".local/share"),
        description="Where the database, the host key and the lock live; made 0700.",
    )
    motd: str = Field("", description="Said to everyone who logs in.")
    ssh: SshSettings = SshSettings()
    http: HttpSettings = HttpSettings()
    registration: RegistrationSettings = RegistrationSettings()
    limits: LimitSettings = LimitSettings()
    models: tuple[ModelSettings, ...] = Field(
        (), description="The models that answer, each a `[[models]]` table."
    )
    finding: FindingSettings = FindingSettings()
    mcp: tuple[McpSettings, ...] = Field(
        (), description="MCP servers whose tools can be equipped, each an `[[mcp]]` table."
    )
    log: LogSettings = LogSettings()

    @field_validator("models")
    @classmethod
    def _one_model_a_name(cls, models: tuple[ModelSettings, ...]) -> tuple[ModelSettings, ...]:
        names = [model.name for model in models]
        if len(set(names)) < len(names):
            raise ValueError("two models have the same name")
        return models

    @field_validator("mcp")
    @classmethod
    def _one_server_a_name(cls, servers: tuple[McpSettings, ...]) -> tuple[McpSettings, ...]:
        names = [server.name for server in servers]
        if len(set(names)) < len(names):
            raise ValueError("two MCP servers have the same name")
        return servers

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings, env_settings, _TomlFile(settings_cls))

    @property
    def database(self) -> Path:
        return self.data_dir / "world.db"


class BadSettings(Exception):
    """Settings that cannot be read at all; the words say where."""


class _TomlFile(TomlConfigSettingsSource):
    """The file named by `Settings.load`, read once per load."""

    path: Path | None = None

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls, toml_file=type(self).path)


def load_settings(config: Path | None = None, **flags: Any) -> Settings:
    """Settings in force. `flags` are nested dicts as in the file and win over everything.

    Raises:
        FileNotFoundError: if `config` is given and is not there.
        BadSettings: if the file is not TOML, or a variable not what can be read.
        pydantic.ValidationError: naming each field that is wrong.
    """
    if config is not None and not config.exists():
        raise FileNotFoundError(f"there is no settings file {config}")
    _TomlFile.path = config or default_config_file()
    try:
        return Settings(**flags)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"{_TomlFile.path}: {error}") from error
    except SettingsError as error:
        raise BadSettings(str(error)) from error
