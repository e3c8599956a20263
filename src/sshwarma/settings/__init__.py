"""Settings of the server: typed sections, and how they are loaded."""

from sshwarma.settings.addresses import is_loopback, split_address
from sshwarma.settings.load import (
    BadSettings,
    Settings,
    default_config_file,
    load_settings,
    xdg,
)
from sshwarma.settings.mcp import McpSettings
from sshwarma.settings.model import ModelKind, ModelSettings
from sshwarma.settings.server import (
    FindingSettings,
    HttpSettings,
    LimitSettings,
    LogSettings,
    RegistrationMode,
    RegistrationSettings,
    ServerRole,
    SshSettings,
)

__all__ = [
    "BadSettings",
    "FindingSettings",
    "HttpSettings",
    "LimitSettings",
    "LogSettings",
    "McpSettings",
    "ModelKind",
    "ModelSettings",
    "RegistrationMode",
    "RegistrationSettings",
    "ServerRole",
    "Settings",
    "SshSettings",
    "default_config_file",
    "is_loopback",
    "load_settings",
    "split_address",
    "xdg",
]
