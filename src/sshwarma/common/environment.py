"""The machine's system and shell, in words for models and people."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PIN_VARIABLE: Final = "SSHWARMA_PIN_PROJECT_MEMORY"
"""The variable of `serve --pin-project-memory`. The server sets it to 1 or 0, for its programs."""

_KERNEL_VERSION: Final = Path("/proc/version")
_SYSTEMS: Final = {"win32": "Windows", "darwin": "macOS"}


def find_system(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the operating system; Linux in Windows is named so."""
    if not sys.platform.startswith("linux"):
        return _SYSTEMS.get(sys.platform, sys.platform)
    distribution = environment.get("WSL_DISTRO_NAME")
    if distribution:
        return f"Linux (WSL: {distribution})"
    try:
        version = _KERNEL_VERSION.read_text(encoding="utf-8", errors="replace")
    except OSError:  # a system without /proc
        version = ""
    return "Linux (WSL)" if "microsoft" in version.lower() else "Linux"


def find_shell(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the shell of this process, such as bash; or unknown."""
    if environment.get("MSYSTEM"):
        return "Git Bash"
    if environment.get("FISH_VERSION"):
        return "fish"
    return Path(environment.get("SHELL", "")).name or "unknown"


def describe_environment(system: str, shell: str, directory: str, initial: str | None) -> str:
    """Return the environment in one line.

    `initial` is the directory of the start, which is named if it is another one, and not the same
    in other letters, such as with a / at its end.
    """
    facts = [f"OS: {system}", f"Shell: {shell}", f"CWD: {directory}"]
    if initial is not None and os.path.normpath(initial) != os.path.normpath(directory):
        facts.append(f"Initial CWD: {initial}")
    return ", ".join(facts)
