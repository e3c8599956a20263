"""uv, the program that finds and installs packages, within limits."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from sshwarma.common.finish import finish
from sshwarma.common.limits import (
    MAX_TOOLSET_PACKAGES_BYTES,
    MAX_TOOLSET_PACKAGES_FILES,
    MAX_UV_MEMORY_BYTES,
    TOOLSET_PACKAGES_SECONDS,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.processes import end_launched, launcher_command, start_program
from sshwarma.common.shorten import shorten_text
from sshwarma.common.units import MIB
from sshwarma.terminal.escape import escape_lines
from sshwarma.world.errors import Invalid, Unavailable

_PASSED: Final = ("UV_", "SSL_CERT")
"""How the names of variables begin that uv gets of the server's, beside those of proxies: which
index it asks, and whom it trusts."""

_WATCH_SECONDS: Final = 0.5
"""Seconds between two measurements of what it has written."""


async def run_uv(words: Sequence[str], text: str, scratch: Path, target: Path | None = None) -> str:
    """Run uv with an input; return what it printed.

    Args:
        words: its command.
        text: its standard input.
        scratch: a folder for its temporary files, which must be deleted afterwards.
        target: the folder that it writes packages into.

    Raises:
        Invalid: if it fails, with what it said, or the packages are too large.
        Unavailable: if it is not installed, or takes too long.
    """
    environ = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_PASSED) or name.lower().endswith("_proxy")
    }
    folders = (scratch, target or scratch)
    process = await start_program(
        *launcher_command(MAX_UV_MEMORY_BYTES),
        *(_find_uv(), *words, "--quiet", "--no-config", "--no-cache", "--only-binary", ":all:"),
        *("--python", sys.executable),
        env=environ | {"PATH": os.defpath, "TMPDIR": str(scratch)}, cwd=os.sep,
        stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True,
    )  # fmt: skip
    talking = asyncio.create_task(process.communicate(text.encode()))
    try:
        async with asyncio.timeout(TOOLSET_PACKAGES_SECONDS):
            while not (await asyncio.wait({talking}, timeout=_WATCH_SECONDS))[0]:
                await asyncio.to_thread(_check_size, folders)
        printed, errors = talking.result()
        await asyncio.to_thread(_check_size, folders)
    except TimeoutError:
        seconds = f"{TOOLSET_PACKAGES_SECONDS:.0f} s"
        raise Unavailable(f"The packages were not installed in {seconds}.") from None
    finally:
        await finish(_end(process, talking))
    if process.returncode:
        said = " ".join(errors.decode(errors="replace").removeprefix("error:").split())
        raise Invalid(f"requirements: {shorten_text(escape_lines(said)) or 'uv failed'}")
    return printed.decode()


async def _end(process: Process, talking: asyncio.Task[tuple[bytes, bytes]]) -> None:
    """End a process and what reads from it: its folders may be deleted afterwards."""
    talking.cancel()
    await asyncio.wait({talking})
    if process.returncode is None:
        await end_launched(process, process.stdout, process.stderr)


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
            hint="The operator can install it: pip install uv.",
        )
    return found


def _check_size(folders: Sequence[Path]) -> None:
    """Refuse packages that are too large, those that are being unpacked, too.

    Raises:
        Invalid: with the limit.
    """
    size = 0
    found = chain.from_iterable(map(_list_files, set(folders)))
    for count, status in enumerate(found, start=1):
        size += 512 * status.st_blocks
        # A file that comes is on the disk twice for a moment.
        if size > 2 * MAX_TOOLSET_PACKAGES_BYTES:
            limit = f"{MAX_TOOLSET_PACKAGES_BYTES // MIB} MiB"
            raise Invalid(f"requirements: {with_limit('The packages are too large', limit)}.")
        if count > 2 * MAX_TOOLSET_PACKAGES_FILES:
            limit = f"{MAX_TOOLSET_PACKAGES_FILES:,}"
            raise Invalid(f"requirements: {with_limit('The packages have too many files', limit)}.")


def _list_files(folder: Path) -> Iterator[os.stat_result]:
    """Yield what is in a folder, which may be changing."""
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    yield entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
        except (FileNotFoundError, NotADirectoryError):
            continue
