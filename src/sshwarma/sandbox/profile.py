"""What a sandbox contains, as options of bubblewrap.

The order matters: a later mount hides the files below it. No mount point is made below a
directory that programs inside can write.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sshwarma.common.limits import (
    MAX_SANDBOX_SHARED_MEMORY_BYTES,
    MAX_SANDBOX_TEMPORARY_BYTES,
)
from sshwarma.sandbox.devices import DEVICES

WORKSPACE_PATH: Final = "/ws"
"""Where the files of a room are inside."""

USER_ID: Final = 1000

HOME: Final = "/tmp"  # noqa: S108 - inside a sandbox, each has its own

_ACCOUNTS: Final = ("passwd", "group", "nsswitch.conf", "hosts")
"""Files of `embedded/sandbox`, which are in /etc inside."""

_SYSTEM_FILES: Final = ("ld.so.cache", "alternatives", "ssl/certs", "ca-certificates")
"""What programs of the system need of its /etc."""

_ENVIRONMENT: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONDONTWRITEBYTECODE": "1",
}


@dataclass(frozen=True, slots=True)
class Profile:
    """What one sandbox contains beside the programs of the system.

    Attributes:
        workspace: the directory that is /ws, the only one of the machine that can be written; None
            for an empty one in memory.
        mounts: other files and directories by their path inside, which can only be read.
        directory: where the program starts, below /ws.
        environment: variables beside those that all have.
        network: whether it is in the network of the machine, with its loopback; else it has none.
    """

    workspace: Path | None
    mounts: Mapping[str, Path] = field(default_factory=dict)
    directory: str = WORKSPACE_PATH
    environment: Mapping[str, str] = field(default_factory=dict)
    network: bool = False


@dataclass(frozen=True, slots=True)
class MachineFiles:
    """Files that all sandboxes of a server contain.

    Attributes:
        accounts: the directory with the files of /etc.
        devices: a directory with the files of /dev; None for those of the machine.
        mark: the name of an open file that each of them holds, as `name_mark` returns it.
    """

    accounts: Path
    devices: Path | None = None
    mark: str = ""


def list_options(profile: Profile, files: MachineFiles) -> list[str]:
    """Return options of bubblewrap for a sandbox, without descriptors and command."""
    return [
        *_isolation(profile),
        *_temporary_files(files.devices),
        *_files(profile, files.accounts),
        *_start(profile),
    ]


def _isolation(profile: Profile) -> Iterator[str]:
    for kind in ("user", "pid", "ipc", "uts", *(() if profile.network else ("net",))):
        yield f"--unshare-{kind}"
    yield "--unshare-cgroup-try"
    yield from ("--uid", str(USER_ID), "--gid", str(USER_ID), "--hostname", "sandbox")
    yield from ("--die-with-parent", "--new-session", "--disable-userns")
    # Without it, the programs of a server that runs as root keep all capabilities.
    yield from ("--cap-drop", "ALL")


def _temporary_files(devices: Path | None) -> Iterator[str]:
    """Yield /proc, /dev and /tmp: without sizes, they could take all memory."""
    yield from ("--proc", "/proc")
    yield from _kernel_files()
    yield from ("--dev", "/dev")
    for name in DEVICES if devices else ():
        yield from ("--dev-bind", f"{devices}/{name}", f"/dev/{name}")
    # It is read as zeros, too, but cannot be mapped, as memory that nobody is seen to hold.
    yield from ("--dev-bind", f"{devices or '/dev'}/full", "/dev/zero")
    yield from ("--size", str(MAX_SANDBOX_SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm")  # noqa: S108
    yield from ("--remount-ro", "/dev")
    yield from ("--size", str(MAX_SANDBOX_TEMPORARY_BYTES), "--tmpfs", HOME)


def _kernel_files() -> Iterator[str]:
    """Yield what hides the secrets in /proc, and makes all else there read-only.

    They belong to root, and so to the programs of a server that runs as root, without any
    capability: it could set the program that the kernel starts as root at a crash, or the modes of
    files in /proc, which are the same for all. Bubblewrap makes only some of it read-only.
    """
    with os.scandir("/proc") as entries:
        names = sorted(entry.name for entry in entries if not entry.name.isdigit())
    for path in (f"/proc/{name}" for name in names):
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:  # a driver was unloaded
            continue
        is_read_by_all = mode & stat.S_IROTH and not stat.S_ISCHR(mode)  # a container hides some
        if not is_read_by_all:
            yield from ("--ro-bind", os.devnull, path)
    yield from ("--remount-ro", "/proc")


def _files(profile: Profile, accounts: Path) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), f"/{name}")
        elif path.is_dir():
            yield from ("--ro-bind", f"/{name}", f"/{name}")
    for name in _ACCOUNTS:
        yield from ("--ro-bind", str(accounts / name), f"/etc/{name}")
    for name in (*_SYSTEM_FILES, *(("resolv.conf",) if profile.network else ())):
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    python = Path(sys.base_prefix).resolve()
    if not python.is_relative_to("/usr"):
        yield from ("--ro-bind", str(python), str(python))
    for target, source in profile.mounts.items():
        yield from ("--ro-bind", str(source), target)
    if profile.workspace is None:
        yield from ("--size", str(MAX_SANDBOX_TEMPORARY_BYTES), "--tmpfs", WORKSPACE_PATH)
    else:
        yield from ("--bind", str(profile.workspace), WORKSPACE_PATH)


def _start(profile: Profile) -> Iterator[str]:
    yield "--clearenv"
    for name, value in {**_ENVIRONMENT, **profile.environment}.items():
        yield from ("--setenv", name, value)
    yield from ("--chdir", profile.directory, "--remount-ro", "/")
