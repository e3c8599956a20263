"""What `sshwarma doctor` asks a running server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sshwarma.admin import control_client, data_dir_owner
from sshwarma.admin.check_result import CheckResult, warn
from sshwarma.world.errors import WorldError

ANSWER_SECONDS: Final = 5.0
"""Seconds that a running server has to answer."""

_UNKNOWN_VALUE: Final = "known-to-the-server"


@dataclass(frozen=True, slots=True)
class ServerSource:
    """The origin of the settings of a running server.

    Attributes:
        file: the whole path of its settings file, or None.
        variables: the names of its environment variables.
    """

    file: str | None
    variables: frozenset[str]

    def add_variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return an environment with the variables of the server, without their values."""
        return {**dict.fromkeys(self.variables, _UNKNOWN_VALUE), **environ}

    def check_file(self, file: Path | None) -> CheckResult | None:
        """Return a warning if the server reads another settings file than `file`."""
        own = os.path.realpath(file) if file is not None else None
        if own == self.file:
            return None
        if self.file is None:
            return warn("settings", "the running server reads no settings file", "")
        return warn(
            "settings",
            f"the running server reads {self.file}, which is not checked",
            f"sshwarma doctor --config {self.file}",
        )


def ask_for_source(data_dir: Path) -> ServerSource | None:
    """Return where a running server has its settings from; None if it does not say."""
    answer = ask_server(data_dir, "settings_source")
    if answer is None:
        return None
    return ServerSource(answer["file"], frozenset(answer["variables"]))


def ask_server(data_dir: Path, operation: str) -> dict[str, Any] | None:
    """Return the answer of a running server to an operation without arguments.

    None if none runs, or it is another user's, older, or in trouble: the check of it says so.
    """
    try:
        data_dir_owner.check_data_dir_owner(data_dir)
        if not (data_dir / control_client.SOCKET_NAME).exists():
            return None
        answer = asyncio.run(control_client.send_request(data_dir, operation, {}, ANSWER_SECONDS))
    except (OSError, ValueError, WorldError, data_dir_owner.ForeignDataDirError):
        return None
    return answer if isinstance(answer, dict) else None
