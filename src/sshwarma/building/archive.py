"""The files of rooms as a tar archive, as `tar c DIR` writes it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping

from sshwarma.common.limits import MAX_BUILD_BYTES, MAX_BUILD_FILES
from sshwarma.common.messages import with_limit
from sshwarma.common.shorten import shorten_name
from sshwarma.world.errors import Invalid, TooLarge
from sshwarma.world.reader import TextByReader


def pack(files: Mapping[str, str]) -> bytes:
    """Return an archive with these files; the same for the same files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, text in sorted(files.items()):
            data = text.encode("utf-8", "replace")
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def unpack(data: bytes) -> dict[str, str]:
    """Return the files of an archive that is not compressed, by path.

    Raises:
        Invalid: if it is no archive, or has a file that is no text, or a link.
        TooLarge: if it has too many files.
    """
    files: dict[str, str] = {}
    total = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                if member.isdir() or _is_hidden(member.name):
                    continue
                path = _check_path(member)
                if len(files) >= MAX_BUILD_FILES:
                    raise TooLarge(f"{with_limit('Too many files', MAX_BUILD_FILES)}.")
                total += member.size  # a sparse file claims more than the archive has
                check_size(total)
                content = archive.extractfile(member)
                files[path] = _decode(path, content.read() if content is not None else b"")
    except tarfile.TarError as error:
        raise Invalid(
            f"This is no tar archive: {error}.", hint=TextByReader("tar c DIR | ssh HOST build")
        ) from error
    return files


def check_size(size: int) -> None:
    """Raise TooLarge if an archive has more than MAX_BUILD_BYTES."""
    if size > MAX_BUILD_BYTES:
        raise TooLarge(f"{with_limit(f'The archive has {size} bytes', MAX_BUILD_BYTES)}.")


def _check_path(member: tarfile.TarInfo) -> str:
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    name = shorten_name(member.name)
    if ".." in parts or not parts or not member.name.isprintable():
        raise Invalid(f"{name!a}: not a path below the folder.")
    if not member.isreg():
        raise Invalid(f"{name}: neither a file nor a folder.", hint="Links are not followed.")
    return "/".join(parts)


def _is_hidden(name: str) -> bool:
    """Return whether a path has a part that begins with a dot, such as .git."""
    return any(part.startswith(".") and part not in (".", "..") for part in name.split("/"))


def _decode(path: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"{path}: byte {error.start} is not UTF-8.") from error
