"""Packages that toolsets require: exact versions that uv installs by hash.

They are wheels alone: what is only a source would run its build outside of a sandbox. Nothing of
them is imported here; sandboxes have them read-only.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
import sysconfig
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from sshwarma.toolsets.kept_folders import KeptFolders
from sshwarma.toolsets.uv import run_uv

PACKAGES_PATH: Final = "/p"
"""Where the packages of a toolset are inside."""

_PLATFORM: Final = f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}"
"""For what packages were chosen: another Python takes other files."""

_COMPILE: Final = (
    "pip", "compile", "--generate-hashes", "--no-header", "--no-annotate", "-",
)  # fmt: skip

_INSTALL: Final = ("pip", "install", "--require-hashes", "--no-deps", "--link-mode", "copy")


class Packages:
    """Installs packages, and keeps each set of them while toolsets require it."""

    def __init__(self, directory: Path) -> None:
        """Use a directory, whose contents may be deleted at any time."""
        self._folders = KeptFolders(directory)

    async def lock(self, pins: Sequence[str]) -> str:
        """Return the packages that pins need, each with the hashes of its files.

        Raises:
            Invalid: if the index lacks one of them, or its wheel for this machine.
            Unavailable: if there is no uv, or it fails.
        """
        async with self._folders.scratch() as scratch:
            found = await run_uv(_COMPILE, "\n".join(pins), scratch)
        return "".join(f"{line}\n" for line in found.splitlines() if line.strip())

    @contextlib.asynccontextmanager
    async def use(self, lock: str) -> AsyncIterator[Path]:
        """Keep a folder with locked packages while it is in use.

        Raises:
            Invalid: if the packages are too large.
            Unavailable: if there is no uv, or it fails.
        """

        async def fill(folder: Path) -> None:
            async with self._folders.scratch() as scratch:
                words = (*_INSTALL, "--target", str(folder), "-r", "-")
                await run_uv(words, lock, scratch, folder)

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
