"""Settings model: all that an operator can set, by file, environment or flag.

Precedence: command-line flags, then SSHWARMA_* variables (nested fields with a double underscore:
SSHWARMA_SSH__KEEPALIVE_SECONDS), then sshwarma.toml, then the defaults written here.
"""

from __future__ import annotations

import errno
import os
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)
from typing_extensions import override

from sshwarma.common.environment import PIN_VARIABLE
from sshwarma.common.near_names import find_near_names
from sshwarma.common.secret_detection import looks_like_key
from sshwarma.settings.addresses import check_database_url
from sshwarma.settings.errors import RENAMED_SECTIONS, TABLE_LISTS, describe_settings_errors
from sshwarma.settings.mcp import McpSettings
from sshwarma.settings.model import ModelSettings
from sshwarma.settings.origin import ENVIRONMENT_PREFIX, find_origin, read_tables
from sshwarma.settings.paths import SettingsPath, place_paths, xdg_dir
from sshwarma.settings.section import SettingsSection, check_table_name
from sshwarma.settings.server import (
    BackupSettings,
    HttpSettings,
    LimitSettings,
    LogSettings,
    MemorySettings,
    PluginSettings,
    RegistrationSettings,
    RetentionSettings,
    SearchSettings,
    SshSettings,
)
from sshwarma.settings.unreadable_file import describe_unreadable_file

BLOBS_DIRECTORY: Final = "blobs"
"""In the data directory: the contents of files."""

FOLDERS_DIRECTORY: Final = "workspaces"
"""In the data directory: folders of rooms for programs, which are copies of files of rooms."""

DATABASE_NAME: Final = "world.db"


def default_config_file() -> Path:
    """`sshwarma.toml` of the current directory, if any, else of the XDG config home."""
    path, folder = Path("sshwarma.toml"), xdg_dir("XDG_CONFIG_HOME", ".config")
    return path if folder is None or _is_visible(path) else folder / "sshwarma.toml"


def _default_data_dir() -> Path:
    """Return the data directory of those who set none.

    Raises:
        InvalidSettingsError: if the user of the process has no home directory.
    """
    path = xdg_dir("XDG_DATA_HOME", ".local/share")
    if path is None:
        raise InvalidSettingsError(
            "data_dir: there is no home directory for it; give --data-dir or SSHWARMA_DATA_DIR"
        )
    return path


def _is_visible(path: Path) -> bool:
    """Return whether a file exists where this process may look."""
    try:
        return path.exists()
    except PermissionError:
        return False


class Settings(BaseSettings):
    """All settings. `sshwarma config show` prints the values in force."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    data_dir: SettingsPath = Field(
        default_factory=_default_data_dir,
        description="Directory of the world: database, host key, lock, backups and downloaded"
        " models; for its user alone (mode 0700). Default: `$XDG_DATA_HOME/sshwarma`, which is"
        " `~/.local/share/sshwarma` if that variable is not set.",
    )
    database: Annotated[str, AfterValidator(check_database_url)] = Field(
        "",
        description="Address of a PostgreSQL database for the world, as"
        " `postgresql://USER@HOST:5432/NAME`; its password is read from `PGPASSWORD` or a password"
        " file. Without one the world is in the SQLite file `world.db` of the data directory.",
    )
    motd: str = Field("", description="Text shown to everyone who logs in.")
    ssh: SshSettings = SshSettings()
    http: HttpSettings = HttpSettings()
    registration: RegistrationSettings = RegistrationSettings()
    limits: LimitSettings = LimitSettings()
    models: tuple[ModelSettings, ...] = Field(
        (), description="The models that answer, each a `[[models]]` table."
    )
    search: SearchSettings = SearchSettings()
    memory: MemorySettings = MemorySettings()
    mcp: tuple[McpSettings, ...] = Field(
        (), description="MCP servers whose tools can be equipped, each an `[[mcp]]` table."
    )
    plugins: PluginSettings = PluginSettings()
    backup: BackupSettings = BackupSettings()
    retention: RetentionSettings = RetentionSettings()
    log: LogSettings = LogSettings()

    @field_validator("models")
    @classmethod
    def _one_model_a_name(cls, models: tuple[ModelSettings, ...]) -> tuple[ModelSettings, ...]:
        if twice := _find_repeated([model.name for model in models]):
            raise ValueError(f"two models have the name {twice}")
        return models

    @field_validator("mcp")
    @classmethod
    def _one_server_a_name(cls, servers: tuple[McpSettings, ...]) -> tuple[McpSettings, ...]:
        if twice := _find_repeated([server.name for server in servers]):
            raise ValueError(f"two MCP servers have the name {twice}")
        return servers

    @classmethod
    @override
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        assert isinstance(init_settings, InitSettingsSource)  # noqa: S101 - for mypy
        values = init_settings.init_kwargs.pop(_FILE_VALUES, {})
        return (init_settings, env_settings, _FileSource(settings_cls, values))

    @property
    def blobs_dir(self) -> Path:
        """The directory of the contents of files."""
        return self.data_dir / BLOBS_DIRECTORY

    @property
    def database_file(self) -> Path:
        """Path of the SQLite file."""
        return self.data_dir / DATABASE_NAME


class InvalidSettingsError(Exception):
    """Invalid or unparsable settings; each problem names its place."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class UnknownVariableError(InvalidSettingsError):
    """An SSHWARMA_* variable that sets nothing."""


_FILE_VALUES: Final = "values of the file"
"""Their key among the arguments of `Settings`: no name of a setting has spaces."""


class _FileSource(InitSettingsSource):
    """The values of the settings file."""


def load_settings(config: Path | None = None, **flags: Any) -> Settings:
    """Load the settings in force.

    `flags` are nested dicts as in the file, and override all else.

    Raises:
        FileNotFoundError, IsADirectoryError: if `config` does not exist, or is a directory.
        InvalidSettingsError: if it is no TOML file, or a variable is unknown or cannot be parsed.
        pydantic.ValidationError: naming each wrong field.
    """
    if config is not None and not config.exists():
        raise FileNotFoundError(f"settings file not found: {config}")
    if config is not None and config.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(config))
    if config is not None and not config.is_file():
        raise InvalidSettingsError(
            f"{config} is a pipe, socket or device. Name a file: it is read again at a reload."
        )
    _check_variables(os.environ)
    return _load(config, flags)


def load_without(
    left_out: Collection[str], config: Path | None, flags: Mapping[str, Any]
) -> Settings:
    """Load settings that are not valid, with defaults for what is wrong in them.

    Args:
        left_out: names of sections, and those that are no settings.
        config: the settings file, if it was named.
        flags: as tables in the file.

    Raises:
        InvalidSettingsError, pydantic.ValidationError: as `load_settings`, if there is more.
    """
    fields = Settings.model_fields
    values = {name: value for name, value in flags.items() if name not in left_out}
    defaults = {name: fields[name].get_default() for name in left_out if name in fields}
    return _load(config, values | defaults, left_out)


def _load(
    config: Path | None, flags: Mapping[str, Any], left_out: Collection[str] = ()
) -> Settings:
    """Load settings as `load_settings`, without outermost names of the file."""
    path = config or find_settings_file()
    if config is None and path is not None:
        _check_trusted(path)
    read = _read_file(path) if path is not None else {}
    values = {name: value for name, value in read.items() if name not in left_out}
    try:
        return Settings(**{**flags, _FILE_VALUES: values})
    except SettingsError as error:
        raise InvalidSettingsError(_describe_unreadable_variable(str(error))) from error


def _read_file(path: Path) -> dict[str, Any]:
    """Return the values of a file, whose relative paths begin at its directory.

    Raises:
        InvalidSettingsError: if this user may not read it, or it is not TOML.
    """
    try:
        values = tomllib.loads(path.read_bytes().decode()) if path.is_file() else {}
        return place_paths(values, path.parent.resolve())
    except PermissionError as error:
        raise InvalidSettingsError(describe_unreadable_file(path)) from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidSettingsError(f"{path}: {error}") from error
    except UnicodeDecodeError as error:
        raise InvalidSettingsError(
            f"{path} is not TOML: its byte {error.start + 1} is not UTF-8 text"
        ) from error


def find_settings_file() -> Path | None:
    """Return the settings file of those who name none, if it exists.

    The file of a home directory that belongs to somebody else is as good as none.
    """
    default = default_config_file()
    return default if _is_visible(default) else None


def _check_trusted(path: Path) -> None:
    """Check that nobody else decides what a settings file says that was not named.

    Settings name programs to start, and which world commands change.

    Raises:
        InvalidSettingsError: if it belongs to another user than root, or all users can write it.
    """
    found = path.stat()
    # Who owns a link chooses the file.
    if {found.st_uid, path.lstat().st_uid} - {0, os.geteuid()}:
        reason = "belongs to another user"
    elif found.st_mode & 0o002:
        reason = "can be written by all users"
    else:
        return
    raise InvalidSettingsError(
        f"{path.absolute()} {reason}. Run the command in another directory, or name the file if you"
        f" trust it: --config {path}"
    )


def describe_invalid_settings(
    error: ValidationError, config: Path | None = None, flags: Mapping[str, Any] | None = None
) -> list[str]:
    """Describe settings refused by `load_settings`, each with its variable or file.

    Tables are named as in the file.
    """
    path = config or find_settings_file()
    tables = read_tables(path)
    origins = [
        find_origin(detail["loc"], flags or {}, path, tables)
        for detail in error.errors(include_url=False)
    ]
    texts = describe_settings_errors(error, Settings, _list_table_names(tables))
    return [
        f"{origin}: {text}" if origin else text for origin, text in zip(origins, texts, strict=True)
    ]


def asks_for_json_log(config: Path | None = None) -> bool:
    """Return whether settings that may not be valid ask for a log in JSON."""
    variable = os.environ.get(f"{ENVIRONMENT_PREFIX}LOG__FORMAT")
    if variable is not None:
        return variable == "json"
    try:
        path = config or find_settings_file()
        if path is None or not path.is_file():
            return False
        if config is None:
            _check_trusted(path)
    except (OSError, ValueError, InvalidSettingsError):
        return False
    section = read_tables(path).get("log")
    return isinstance(section, dict) and section.get("format") == "json"


def _check_variables(environ: Mapping[str, str]) -> None:
    """Refuse SSHWARMA_* variables that set nothing.

    Raises:
        InvalidSettingsError: with the nearest variable. Those inside a table are checked with it.
    """
    for variable in sorted(environ):
        name = variable.upper()
        if not name.startswith(ENVIRONMENT_PREFIX) or name == PIN_VARIABLE:
            continue
        setting = name.removeprefix(ENVIRONMENT_PREFIX)
        if setting.split("__")[0].lower() in Settings.model_fields:
            continue
        section, separator, rest = setting.partition("__")
        renamed = RENAMED_SECTIONS.get(section.lower(), "").upper()
        names = [f"{renamed}{separator}{rest}"] if renamed else []
        names = names or find_near_names(setting, _list_variables())
        hint = f" (did you mean {ENVIRONMENT_PREFIX}{names[0]}?)" if names else ""
        raise UnknownVariableError(f"{variable}: unknown setting{hint}")


def _list_variables() -> list[str]:
    """Return the variables of settings without prefix, except in lists of tables."""
    variables = []
    for name, field in Settings.model_fields.items():
        variable = name.upper()
        section = field.annotation
        if isinstance(section, type) and issubclass(section, SettingsSection):
            variables += [f"{variable}__{inner.upper()}" for inner in section.model_fields]
        else:
            variables.append(variable)
    return variables


def _describe_unreadable_variable(message: str) -> str:
    """Rewrite `error parsing value for field "ssh" from source "EnvSettingsSource"`."""
    match = re.search(r'field "(\w+)"', message)
    if match is None:
        return message
    field = match[1]
    variable = ENVIRONMENT_PREFIX + field.upper()
    if field in TABLE_LISTS:
        return f"{variable}: must be a JSON list of tables"
    return f"{variable}: must be a JSON object; {variable}__NAME sets one setting"


def _list_table_names(tables: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the names of the tables in a settings file, in their order."""
    names: dict[str, list[str]] = {}
    for field in TABLE_LISTS:
        entries = tables.get(field)
        if isinstance(entries, list) and ENVIRONMENT_PREFIX + field.upper() not in os.environ:
            names[field] = [_table_name(table) for table in entries]
    return names


def _find_repeated(names: Sequence[str]) -> str:
    return next((name for place, name in enumerate(names) if name in names[:place]), "")


def _table_name(table: object) -> str:
    """Return the name of a table if it may be repeated; a wrong one could be a key."""
    name = table.get("name") if isinstance(table, dict) else None
    try:
        return check_table_name(name) if isinstance(name, str) and not looks_like_key(name) else ""
    except ValueError:
        return ""
