"""Packages that toolsets require: exact versions that uv installs by hash.

They are wheels alone: what is only a source would run its build outside of a sandbox. Nothing of
them is imported here; sandboxes have them read-only.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import sys
import sysconfig
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from sshwarma.common.finish import finish
from sshwarma.common.limits import MAX_TOOLSET_PACKAGES_BYTES, TOOLSET_PACKAGES_SECONDS
from sshwarma.common.messages import with_limit
from sshwarma.common.processes import end_process
from sshwarma.common.shorten import shorten_text
from sshwarma.common.units import MIB
from sshwarma.terminal.escape import escape_lines
from sshwarma.toolsets.kept_folders import KeptFolders
from sshwarma.world.errors import Invalid, Unavailable

PACKAGES_PATH: Final = "/p"
"""Where the packages of a toolset are inside."""

_PLATFORM: Final = f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}"
"""For what packages were chosen: another Python takes other files."""

_COMPILE: Final = (
    "pip", "compile", "--generate-hashes", "--no-header", "--no-annotate", "-",
)  # fmt: skip

_INSTALL: Final = ("pip", "install", "--require-hashes", "--no-deps", "--link-mode", "copy")

_PASSED: Final = ("UV_", "SSL_CERT")
"""How the names of variables begin that uv gets of the server's, beside those of proxies: which
index it asks, and whom it trusts."""


class Packages:
    """Installs packages, and keeps each set of them while toolsets require it."""

    def __init__(self, directory: Path) -> None:
        """Use a directory, whose contents may be deleted at any time."""
        self._folders = KeptFolders(directory)

    async def lock(self, pins: Sequence[str]) -> str:
        """Return the packages that pins need, each with the hashes of its files.

        Raises:
            Invalid: if the index has one of them not, or not as a wheel for this machine.
            Unavailable: if there is no uv, or it fails.
        """
        found = await _run_uv(_COMPILE, "\n".join(pins))
        return "".join(f"{line}\n" for line in found.splitlines() if line.strip())

    @contextlib.asynccontextmanager
    async def use(self, lock: str) -> AsyncIterator[Path]:
        """Keep a folder with locked packages while it is in use.

        Raises:
            Invalid: if the packages are too large.
            Unavailable: if there is no uv, or it fails.
        """

        async def fill(folder: Path) -> None:
            await _run_uv((*_INSTALL, "--target", str(folder), "-r", "-"), lock)
            if await asyncio.to_thread(_measure, folder) > MAX_TOOLSET_PACKAGES_BYTES:
                limit = f"{MAX_TOOLSET_PACKAGES_BYTES // MIB} MiB"
                raise Invalid(f"requirements: {with_limit('The packages are too large', limit)}.")

        async with self._folders.use(name_packages(lock), fill) as folder:
            yield folder

    async def delete_others(self, list_kept: Callable[[], Awaitable[Collection[str]]]) -> None:
        """Delete all folders but those of some locks, and those in use.

        Raises:
            OSError: if the disk fails.
        """

        async def list_names() -> set[tuple[str, str]]:
            return set(map(name_packages, await list_kept()))

        await self._folders.delete_others(list_names)


def name_packages(lock: str) -> tuple[str, str]:
    """Return the two names in the path of a folder with locked packages."""
    return _PLATFORM, hashlib.sha256(lock.encode()).hexdigest()


def _measure(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _find_uv() -> str:
    """Return the program: that of this environment, or the system's.

    Raises:
        Unavailable: if neither is there.
    """
    own = str(Path(sys.executable).parent)
    found = shutil.which("uv", path=os.pathsep.join((own, os.environ.get("PATH", os.defpath))))
    if found is None:
        raise Unavailable(
            "Toolsets with requirements need uv, which is not installed.",
            hint="An administrator can install it: pip install uv.",
        )
    return found


async def _run_uv(words: Sequence[str], text: str) -> str:
    """Run uv with an input; return what it printed.

    Raises:
        Invalid: if it fails, with what it said.
        Unavailable: if it is not installed, or takes too long.
    """
    environ = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_PASSED) or name.lower().endswith("_proxy")
    }
    process = await asyncio.create_subprocess_exec(
        _find_uv(), *words, "--quiet", "--no-config", "--no-cache", "--only-binary", ":all:",
        "--python", sys.executable, env=environ | {"PATH": os.defpath}, cwd=os.sep,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(TOOLSET_PACKAGES_SECONDS):
            printed, errors = await process.communicate(text.encode())
    except TimeoutError:
        seconds = f"{TOOLSET_PACKAGES_SECONDS:.0f} s"
        raise Unavailable(f"The packages were not installed in {seconds}.") from None
    finally:
        if process.returncode is None:
            await finish(end_process(process, process.stdout, process.stderr))
    if process.returncode:
        said = " ".join(errors.decode(errors="replace").removeprefix("error:").split())
        raise Invalid(f"requirements: {shorten_text(escape_lines(said)) or 'uv failed'}")
    return printed.decode()
