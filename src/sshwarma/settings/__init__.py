"""Settings of the server: typed sections, and how they are loaded."""

from sshwarma.settings.addresses import (
    find_local_host,
    format_address,
    is_loopback,
    make_register_command,
    split_address,
)
from sshwarma.settings.errors import describe_settings_errors, describe_value_error
from sshwarma.settings.load import (
    BLOBS_DIRECTORY,
    DATABASE_NAME,
    FOLDERS_DIRECTORY,
    InvalidSettingsError,
    Settings,
    asks_for_json_log,
    describe_invalid_settings,
    find_settings_file,
    load_settings,
)
from sshwarma.settings.mcp import McpSettings
from sshwarma.settings.model import ModelKind, ModelSettings, OfferedTools, ProfileName
from sshwarma.settings.origin import ENVIRONMENT_PREFIX
from sshwarma.settings.paths import xdg_dir
from sshwarma.settings.reloadable import ReloadableSettings
from sshwarma.settings.server import (
    BackupSettings,
    HttpSettings,
    LimitSettings,
    LogSettings,
    PluginSettings,
    RegistrationMode,
    RegistrationRole,
    RegistrationSettings,
    RetentionSettings,
    SearchSettings,
    SshSettings,
)
from sshwarma.settings.source import SettingsSource
from sshwarma.settings.valid_part import ValidPart, load_valid_part

__all__ = [
    "BLOBS_DIRECTORY",
    "DATABASE_NAME",
    "ENVIRONMENT_PREFIX",
    "FOLDERS_DIRECTORY",
    "BackupSettings",
    "HttpSettings",
    "InvalidSettingsError",
    "LimitSettings",
    "LogSettings",
    "McpSettings",
    "ModelKind",
    "ModelSettings",
    "OfferedTools",
    "PluginSettings",
    "ProfileName",
    "RegistrationMode",
    "RegistrationRole",
    "RegistrationSettings",
    "ReloadableSettings",
    "RetentionSettings",
    "SearchSettings",
    "Settings",
    "SettingsSource",
    "SshSettings",
    "ValidPart",
    "asks_for_json_log",
    "describe_invalid_settings",
    "describe_settings_errors",
    "describe_value_error",
    "find_local_host",
    "find_settings_file",
    "format_address",
    "is_loopback",
    "load_settings",
    "load_valid_part",
    "make_register_command",
    "split_address",
    "xdg_dir",
]
