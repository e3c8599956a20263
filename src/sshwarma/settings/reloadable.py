"""The parts of the settings that a reload replaces while the server runs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from sshwarma.settings.load import Settings
from sshwarma.settings.server import (
    BackupSettings,
    HttpSettings,
    LimitSettings,
    RegistrationSettings,
    RetentionSettings,
    SearchSettings,
    SshSettings,
)


@dataclass
class ReloadableSettings:
    """Sections in force: one object, which all parts read at each use.

    A part that kept a section would not notice a reload. Of [ssh], a reload changes nothing.
    """

    motd: str = ""
    ssh: SshSettings = field(default_factory=SshSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    registration: RegistrationSettings = field(default_factory=RegistrationSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    backup: BackupSettings = field(default_factory=BackupSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)

    @classmethod
    def of(cls, settings: Settings) -> ReloadableSettings:
        """Return the reloadable parts of settings."""
        made = cls()
        made.adopt(settings)
        return made

    def adopt(self, settings: Settings) -> None:
        """Put the sections of new settings into force, for all who read this object."""
        for part in fields(self):
            setattr(self, part.name, getattr(settings, part.name))
