"""Where the settings of a server come from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sshwarma.settings.load import (
    InvalidSettingsError,
    Settings,
    describe_invalid_settings,
    find_settings_file,
    load_settings,
)


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """The origin of the settings of a server, at its start and at each reload.

    Attributes:
        config: the file that was named; None for the one that is found.
        flags: those of the command line, as tables in the file; they override it.
    """

    config: Path | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> Path | None:
        """The whole path of the file, if there is one."""
        file = self.config or find_settings_file()
        return Path(os.path.realpath(file)) if file is not None else None

    def load(self) -> Settings:
        """Read the settings.

        Raises:
            InvalidSettingsError: with all that is wrong.
            OSError: if the file cannot be read.
        """
        try:
            return load_settings(self.config, **self.flags)
        except ValidationError as error:
            problems = describe_invalid_settings(error, self.config, self.flags)
            raise InvalidSettingsError(*problems) from error
