"""Settings of the server: typed sections, and how they are loaded."""

from sshwarma.settings.addresses import is_loopback, split_address
from sshwarma.settings.load import (
    InvalidSettingsError,
    Settings,
    default_config_file,
    load_settings,
    xdg_dir,
)
from sshwarma.settings.mcp import McpSettings
from sshwarma.settings.model import ModelKind, ModelSettings
from sshwarma.settings.server import (
    HttpSettings,
    LimitSettings,
    LogSettings,
    RegistrationMode,
    RegistrationSettings,
    SearchSettings,
    ServerRole,
    SshSettings,
)

__all__ = [
    "HttpSettings",
    "InvalidSettingsError",
    "LimitSettings",
    "LogSettings",
    "McpSettings",
    "ModelKind",
    "ModelSettings",
    "RegistrationMode",
    "RegistrationSettings",
    "SearchSettings",
    "ServerRole",
    "Settings",
    "SshSettings",
    "default_config_file",
    "is_loopback",
    "load_settings",
    "split_address",
    "xdg_dir",
]
