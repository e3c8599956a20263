"""The program bubblewrap: where it is, and what to do if it makes no sandbox."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MIN_VERSION: Final = (0, 8, 0)
"""The first that keeps programs inside from making namespaces (--disable-userns)."""

_DIRECTORIES: Final = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
"""Where systems have it. PATH is not searched, because it may hold a directory of others."""

_VERSION: Final = re.compile(r"bubblewrap (\d+)\.(\d+)\.(\d+)")

_FAILURES: Final = (
    ("No permissions to create new namespace",
     "the system or the container allows no user namespaces",
     "add examples/sshwarma-sandbox.conf to the unit of systemd; in a container, start it with"
     " --security-opt seccomp=unconfined; elsewhere set the sysctl"
     " kernel.unprivileged_userns_clone to 1"),
    ("Failed to make / slave: Permission denied",
     "AppArmor refuses mounts in this container",
     "start it with --security-opt apparmor=unconfined"),
    ("setting up uid map",
     "AppArmor allows no user namespaces to this program",
     "give bubblewrap an AppArmor profile with `userns,`, or set the sysctl"
     " kernel.apparmor_restrict_unprivileged_userns to 0"),
    ("loopback: Failed RTM_NEWADDR",
     "AppArmor allows no user namespaces to this program",
     "give bubblewrap an AppArmor profile with `userns,`, or set the sysctl"
     " kernel.apparmor_restrict_unprivileged_userns to 0"),
    ("No space left on device",
     "the system allows no more namespaces",
     "raise the sysctl user.max_user_namespaces"),
    ("_namespaces exceeded",
     "the system allows no more namespaces",
     "raise the sysctl user.max_user_namespaces"),
)  # fmt: skip
"""Parts of what bubblewrap says, what it means, and what to do."""


@dataclass(frozen=True, slots=True)
class SandboxObstacle:
    """Why there can be no sandbox: a reason, and what to do, both as clauses."""

    reason: str
    remedy: str

    @property
    def hint(self) -> str:
        """The remedy as a sentence for people and models, who are no administrators."""
        return f"The operator can {self.remedy}."


def find_bubblewrap() -> Path | SandboxObstacle:
    """Return the path of bubblewrap, or why it cannot be used."""
    for directory in _DIRECTORIES:
        path = Path(directory, "bwrap")
        if not os.access(path, os.X_OK):
            continue
        if path.stat().st_mode & stat.S_ISUID:
            return SandboxObstacle(
                f"{path} is setuid root, and programs inside could abuse that",
                f"remove the bit: chmod u-s {path}",
            )
        return path
    return SandboxObstacle(
        "bubblewrap is not installed", "install the package bubblewrap of your system"
    )


def check_version(printed: str) -> SandboxObstacle | None:
    """Return an obstacle if what `bwrap --version` printed is an older version."""
    found = _VERSION.search(printed)
    version = tuple(map(int, found.groups())) if found else ()
    if version >= MIN_VERSION:
        return None
    wanted = ".".join(map(str, MIN_VERSION))
    return SandboxObstacle(
        f"bubblewrap is {printed.strip()}" if printed.strip() else "bubblewrap tells no version",
        f"install {wanted} or newer",
    )


def explain_failure(printed: str) -> SandboxObstacle:
    """Return what an error of bubblewrap means."""
    for part, reason, remedy in _FAILURES:
        if part in printed:
            return SandboxObstacle(reason, remedy)
    text = printed.strip().removeprefix("bwrap: ").rstrip(".") or "it said nothing"
    return SandboxObstacle(f"bubblewrap failed: {text}", "run sshwarma doctor on this machine")
