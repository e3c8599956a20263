"""The files of rooms as a tar archive, as `tar c DIR` writes it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from typing import Final

from sshwarma.common.limits import MAX_BUILD_BYTES, MAX_BUILD_FILES, MAX_BUILD_PATH_CHARACTERS
from sshwarma.common.messages import with_limit
from sshwarma.common.shorten import shorten_name
from sshwarma.world.errors import Invalid, TooLarge
from sshwarma.world.reader import TextByReader

_MAX_LENGTH_DIGITS: Final = 8
"""Of the length of a record: no archive has a record of 10 MB."""


def pack(files: Mapping[str, str]) -> bytes:
    """Return an archive with these files; the same for the same files.

    Raises:
        TooLarge: if there are more, or more bytes, than `unpack` takes.
    """
    check_count(len(files))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, text in sorted(files.items()):
            data = text.encode("utf-8", "replace")
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    check_size(out.tell())
    return out.getvalue()


def unpack(data: bytes) -> dict[str, str]:
    """Return the files of an archive that is not compressed, by path.

    It is read here and not by tarfile, which reads what people send too kindly: it takes a damaged
    header for the end of the archive, and goes back in it where a size is below 0.

    Raises:
        Invalid: if it is no whole archive, or has a file that is no text or comes twice, or a link.
        TooLarge: if it has too many files.
    """
    check_size(len(data))
    files: dict[str, str] = {}
    for member, content in _read_members(data):
        if member.isdir() or _is_hidden(member.name):
            continue
        path = _check_path(member)
        if path in files:
            raise Invalid(f"{path}: comes twice in the archive.")
        check_count(len(files) + 1)
        files[path] = _decode(path, content)
    return files


def _read_members(data: bytes) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """Yield what an archive has, with the long names that headers of their own give.

    Raises:
        Invalid: if it is damaged, cut or compressed.
    """
    if data.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")):
        raise _damaged("it is compressed")
    at, name = 0, ""
    while (block := data[at : at + tarfile.BLOCKSIZE]) != bytes(tarfile.BLOCKSIZE):
        try:
            member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except (tarfile.HeaderError, ValueError) as error:
            reason = "its end is missing" if len(block) < tarfile.BLOCKSIZE else str(error)
            raise _damaged(f"{reason} (byte {at})") from error
        at += tarfile.BLOCKSIZE
        content = data[at : at + max(0, member.size)]
        if len(content) != member.size:
            raise _damaged(f"{shorten_name(member.name)!a} has no {member.size} bytes")
        at += -(-member.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        match member.type:
            case tarfile.XHDTYPE | tarfile.SOLARIS_XHDTYPE:
                name = _read_long_name(content) or name
            case tarfile.GNUTYPE_LONGNAME:
                name = content.rstrip(b"\0").decode(errors="surrogateescape")
            case tarfile.XGLTYPE:
                pass  # facts about the archive, such as the commit of `git archive`
            case _:
                member.name, name = name or member.name, ""
                if len(member.name) > MAX_BUILD_PATH_CHARACTERS:
                    raise _damaged(f"a name has more than {MAX_BUILD_PATH_CHARACTERS} characters")
                yield member, content
    if data[at:].strip(b"\0"):
        raise _damaged(f"something follows its end (byte {at})")


def _read_long_name(records: bytes) -> str:
    """Return the path in the records of a header of POSIX; "" without one.

    Raises:
        Invalid: if a record is damaged, or says that the file is stored in another form.
    """
    name, at = "", 0
    while at < len(records):
        digits, _, _ = records[at : at + _MAX_LENGTH_DIGITS].partition(b" ")
        length = int(digits) if digits.isdigit() else 0
        key, equals, value = records[at + len(digits) + 1 : at + length].partition(b"=")
        if not equals or not value.endswith(b"\n") or at + length > len(records):
            raise _damaged("a header with a long name is damaged")
        if key == b"size" or key.startswith(b"GNU.sparse"):
            raise _damaged(f"a file is stored in another form ({key.decode()!a})")
        if key == b"path":
            name = value[:-1].decode(errors="surrogateescape")
        at += length
    return name


def _damaged(reason: str) -> Invalid:
    hint = TextByReader("tar c DIR | ssh HOST build")
    return Invalid(f"This is no whole tar archive: {reason}.", hint=hint)


def check_count(count: int) -> None:
    """Raise TooLarge if an archive has more than MAX_BUILD_FILES."""
    if count > MAX_BUILD_FILES:
        raise TooLarge(f"{with_limit('Too many files', MAX_BUILD_FILES)}.")


def check_size(size: int) -> None:
    """Raise TooLarge if an archive has more than MAX_BUILD_BYTES."""
    if size > MAX_BUILD_BYTES:
        raise TooLarge(f"{with_limit(f'The archive has {size} bytes', MAX_BUILD_BYTES)}.")


def _check_path(member: tarfile.TarInfo) -> str:
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    name = shorten_name(member.name)
    if ".." in parts or not parts or not member.name.isprintable():
        raise Invalid(f"{name!a}: not a path below the folder.")
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
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
