"""A strict reader of ZIP archives from strangers.

The archive must be what its directory says and nothing else: its entries lie in a row from the
first byte to the directory, and the directory from there to the end record, behind which only a
comment may stand, such as the id of the commit that `git archive` writes. So no entry shares bytes
with another, no bytes are hidden, and every program that reads the archive sees the same files.
`zipfile` checks none of that: it skips what stands before the first entry, takes the last of two
equal names, and reads entries that overlap. Nothing is unpacked before all of the directory is
checked, and no file is longer than it says.
"""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sshwarma.common.limits import (
    MAX_ARCHIVE_BYTES,
    MAX_ARCHIVE_ENTRIES,
    MAX_BUNDLE_BYTES,
    MAX_BUNDLE_FILE_BYTES,
    MAX_COMPRESSION_RATIO,
)
from sshwarma.common.shorten import shorten_name
from sshwarma.common.units import MIB
from sshwarma.toolsets.paths import find_bundle_path_problem, fold_path
from sshwarma.workspaces.paths import list_parents
from sshwarma.world.errors import Invalid

MANIFEST_PATH: Final = "toolset.yaml"
"""The manifest of a bundle, at its top."""

FINDER_FOLDER: Final = "__MACOSX"
"""A folder that the Finder of macOS adds to archives: attributes of the other files, which nobody
asks for."""

FINDER_FILE: Final = ".DS_Store"
"""A file that the Finder keeps in each folder that it has shown: how it looks there."""

LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")
DIRECTORY_HEADER: Final = struct.Struct("<4s6H3I5H2I")
END_RECORD: Final = struct.Struct("<4s4H2IH")
MAX_COMMENT_BYTES: Final = 0xFFFF
"""Bytes that the comment of a whole archive can have in the format."""

LOCAL_MARK: Final = b"PK\x03\x04"
DIRECTORY_MARK: Final = b"PK\x01\x02"
END_MARK: Final = b"PK\x05\x06"
_DESCRIPTOR: Final = struct.Struct("<3I")
_DESCRIPTOR_MARK: Final = b"PK\x07\x08"

UTF8_FLAG: Final = 0x800
_DESCRIPTOR_FLAG: Final = 0x8
_LEVEL_FLAGS: Final = 0x6
_ALLOWED_FLAGS: Final = UTF8_FLAG | _DESCRIPTOR_FLAG | _LEVEL_FLAGS

STORED: Final = 0
DEFLATED: Final = 8

_ZIP64_COUNT: Final = 0xFFFF
_ZIP64_SIZE: Final = 0xFFFFFFFF
_DOS_FOLDER: Final = 0x10
_DOS_VOLUME: Final = 0x08
_REFUSED_FIELDS: Final = {1: "64-bit sizes (zip64)", 0x7075: "a second name"}
"""Extra fields that change what an entry is, so that readers disagree."""


class InvalidArchive(Invalid):
    """A damaged or hostile archive; the text names the entry and the rule."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of the directory; `path` has no `/` at its end."""

    path: str
    is_folder: bool
    name: bytes
    flags: int
    method: int
    crc: int
    packed_size: int
    size: int
    offset: int

    def refuse(self, rule: str) -> InvalidArchive:
        return InvalidArchive(f"Archive entry {_show(self.path)} {rule}.")


def read_archive(data: bytes) -> dict[str, bytes]:
    """Read the files of a toolset's archive, by their paths in the bundle.

    Folders are left out, and so is what the Finder of macOS adds. If all files are in one folder,
    and the manifest is in it, the paths are those below it. Takes up to a second for the largest
    archive, in which nothing else can run: call it in a thread.

    Args:
        data: the archive.

    Raises:
        InvalidArchive: if a rule is violated; the text names the entry and the rule.
    """
    directory, end, count = _find_directory(data)
    entries = list(_read_directory(data, directory, end, count))
    _check_names(entries)
    starts = _find_contents(data, entries, directory)
    files = {
        entry.path: content
        for entry, start in zip(entries, starts, strict=True)
        if (content := _unpack(data, entry, start)) is not None
    }
    return _strip_top_folder(files)


def _show(name: str | bytes) -> str:
    """Return a name for a message: short, on one line, with visible characters."""
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
    return repr(shorten_name(text))


def check_archive_size(size: int) -> None:
    """Check the bytes of an archive.

    Raises:
        InvalidArchive: if there are too many.
    """
    if size > MAX_ARCHIVE_BYTES:
        limit = f"{MAX_ARCHIVE_BYTES // MIB} MiB ({MAX_ARCHIVE_BYTES:,} bytes; got {size:,})"
        raise InvalidArchive(f"The archive must have at most {limit}.")


def _find_end(data: bytes) -> int:
    """Return where the end record is: the last one, with a comment up to the end.

    Printable ASCII has no mark of a record, so that no program finds another one in the comment.
    """
    start = max(0, len(data) - END_RECORD.size - MAX_COMMENT_BYTES)
    end = data.rfind(END_MARK, start)
    comment_start = end + END_RECORD.size
    if end < 0 or comment_start > len(data):
        raise InvalidArchive(
            "The archive must end with its end record: it is cut off, or something was appended."
        )
    comment_size = END_RECORD.unpack_from(data, end)[7]
    behind = len(data) - comment_start
    if behind != comment_size:
        raise InvalidArchive(
            f"The archive must end with its comment of {comment_size} bytes: it has {behind} bytes"
            " there, so it is cut off, or something was appended."
        )
    if any(not 0x20 <= byte <= 0x7E for byte in data[comment_start:]):
        raise InvalidArchive("The comment of the archive must be printable ASCII.")
    return end


def _find_directory(data: bytes) -> tuple[int, int, int]:
    """Return the offset of the directory, of its end, and the number of entries."""
    check_archive_size(len(data))
    if not data.startswith(LOCAL_MARK):
        raise InvalidArchive(
            "The archive must begin with the header of a file: this is no ZIP archive, an empty"
            " one, or one behind something else."
        )
    end = _find_end(data)
    _, disk, first_disk, disk_count, count, size, offset, _ = END_RECORD.unpack_from(data, end)
    if count == _ZIP64_COUNT or _ZIP64_SIZE in (size, offset):
        raise InvalidArchive("The archive must not have 64-bit sizes (zip64).")
    if disk or first_disk or disk_count != count:
        raise InvalidArchive("The archive must be whole, not one part of several.")
    if not 0 < count <= MAX_ARCHIVE_ENTRIES:
        raise InvalidArchive(
            f"The archive must have 1 to {MAX_ARCHIVE_ENTRIES} entries (got {count})."
        )
    if offset + size != end:
        raise InvalidArchive("The directory of the archive must end where the end record begins.")
    return offset, end, count


def _read_directory(data: bytes, position: int, end: int, count: int) -> Iterator[_Entry]:
    total = 0
    for number in range(1, count + 1):
        if position + DIRECTORY_HEADER.size > end:
            raise InvalidArchive(f"The directory of the archive ends before entry {number}.")
        header = DIRECTORY_HEADER.unpack_from(data, position)
        position += DIRECTORY_HEADER.size
        name_size, extra_size, comment_size = header[10:13]
        next_position = position + name_size + extra_size + comment_size
        if header[0] != DIRECTORY_MARK or next_position > end:
            raise InvalidArchive(f"Entry {number} of the archive's directory is damaged.")
        name = data[position : position + name_size]
        entry = _make_entry(header, name)
        _check_extra(entry, data[position + name_size : next_position - comment_size])
        total += entry.size
        if total > MAX_BUNDLE_BYTES:
            raise InvalidArchive(
                f"The files of the archive must have at most {MAX_BUNDLE_BYTES} bytes together."
            )
        yield entry
        position = next_position
    if position != end:
        raise InvalidArchive(f"The directory of the archive has more than its {count} entries.")


def _make_entry(header: Sequence[int], name: bytes) -> _Entry:
    """Check an entry of the directory for itself."""
    flags, method, crc, packed_size, size = header[3], header[4], *header[7:10]
    disk, attributes, offset = header[13], header[15], header[16]
    try:
        path = name.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidArchive(f"Archive entry {_show(name)} must have a name in UTF-8.") from None
    is_folder = path.endswith("/")
    path = path.removesuffix("/")
    entry = _Entry(path, is_folder, name, flags, method, crc, packed_size, size, offset)
    if problem := find_bundle_path_problem(path):
        raise entry.refuse(problem)
    if flags & 1:
        raise entry.refuse("must not be encrypted")
    if flags & ~_ALLOWED_FLAGS:
        raise entry.refuse(
            f"must have no flags but UTF-8, data descriptor and level (got {flags:#x})"
        )
    if method not in (STORED, DEFLATED):
        raise entry.refuse(f"must be stored or deflated (got method {method})")
    if _ZIP64_SIZE in (packed_size, size, offset) or disk:
        raise entry.refuse("must have no 64-bit sizes (zip64) and be in this file")
    _check_kind(entry, attributes)
    _check_sizes(entry)
    return entry


def _check_kind(entry: _Entry, attributes: int) -> None:
    kind = stat.S_IFMT(attributes >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        what = "a symbolic link" if kind == stat.S_IFLNK else "a device, pipe or socket"
        raise entry.refuse(f"must be a file or a folder, not {what}")
    if attributes & _DOS_VOLUME:
        raise entry.refuse("must be a file or a folder, not the name of a disk")
    says_folder = kind == stat.S_IFDIR or bool(attributes & _DOS_FOLDER)
    if says_folder and not entry.is_folder:
        raise entry.refuse("is a folder by its attributes: its name must end with /")
    if entry.is_folder and (kind == stat.S_IFREG or entry.size):
        raise entry.refuse("is a folder by its name: it must be one by its attributes, and empty")


def _check_sizes(entry: _Entry) -> None:
    if entry.size > MAX_BUNDLE_FILE_BYTES:
        raise entry.refuse(f"must have at most {MAX_BUNDLE_FILE_BYTES} bytes (got {entry.size})")
    if entry.method == STORED and entry.size != entry.packed_size:
        raise entry.refuse("is stored: it must have the same size in the archive as unpacked")
    if entry.size > MAX_COMPRESSION_RATIO * entry.packed_size:
        raise entry.refuse(
            f"must unpack to at most {MAX_COMPRESSION_RATIO} times its size in the archive"
            f" (got {entry.size} bytes from {entry.packed_size})"
        )


def _check_extra(entry: _Entry, extra: bytes) -> None:
    """Check the extra fields of an entry; what they say is never used."""
    position = 0
    while position < len(extra):
        if position + 4 > len(extra):
            raise entry.refuse("has damaged extra fields")
        kind, size = struct.unpack_from("<2H", extra, position)
        if kind in _REFUSED_FIELDS:
            raise entry.refuse(f"must not have {_REFUSED_FIELDS[kind]} in an extra field")
        position += 4 + size
        if position > len(extra):
            raise entry.refuse("has damaged extra fields")


def _check_names(entries: Sequence[_Entry]) -> None:
    """Refuse names that differ only for some, and files that are folders too."""
    seen: dict[str, _Entry] = {}
    for entry in entries:
        first = seen.setdefault(fold_path(entry.path), entry)
        if first is not entry:
            raise entry.refuse(
                f"must have another name than {_show(first.path)}: they are the same where case and"
                " accents do not count"
            )
    for entry in entries:
        for parent in list_parents(fold_path(entry.path)):
            above = seen.get(parent)
            if above is not None and not above.is_folder:
                raise entry.refuse(f"must not be inside {_show(above.path)}, which is a file")


def _find_contents(data: bytes, entries: Sequence[_Entry], directory: int) -> list[int]:
    """Check that the entries lie in a row; return where the content of each begins."""
    starts: dict[int, int] = {}
    ordered = sorted(range(len(entries)), key=lambda index: entries[index].offset)
    position = 0
    for place, index in enumerate(ordered):
        entry = entries[index]
        is_last = place + 1 == len(ordered)
        next_position = directory if is_last else entries[ordered[place + 1]].offset
        if entry.offset != position:
            raise entry.refuse(
                f"must begin where the one before it ends, at byte {position} (got {entry.offset})"
            )
        if entry.offset + LOCAL_HEADER.size > directory or next_position > directory:
            raise entry.refuse("must lie before the directory of the archive")
        starts[index] = _check_local(data, entry, next_position)
        position = next_position
    return [starts[index] for index in range(len(entries))]


def _check_local(data: bytes, entry: _Entry, next_position: int) -> int:
    """Compare an entry's own header with the directory; return its content's start."""
    name_start = entry.offset + LOCAL_HEADER.size
    if name_start > next_position:
        raise entry.refuse("has no header of its own where the directory says")
    header = LOCAL_HEADER.unpack_from(data, entry.offset)
    mark, _, flags, method, _, _, crc, packed_size, size, name_size, extra_size = header
    extra_start = name_start + name_size
    start: int = extra_start + extra_size
    if mark != LOCAL_MARK or start + entry.packed_size > next_position:
        raise entry.refuse("must not overlap the next entry, and must have a header of its own")
    if data[name_start:extra_start] != entry.name:
        raise entry.refuse("must have the same name in its own header as in the directory")
    if (flags, method) != (entry.flags, entry.method):
        raise entry.refuse("must have the flags and the method of the directory in its own header")
    _check_extra(entry, data[extra_start:start])
    said = (entry.crc, entry.packed_size, entry.size)
    own = (crc, packed_size, size)
    has_descriptor = bool(flags & _DESCRIPTOR_FLAG)
    is_left_open = has_descriptor and all(
        value in (0, expected) for value, expected in zip(own, said, strict=True)
    )
    if own != said and not is_left_open:
        raise entry.refuse(
            "must have the sizes and the checksum of the directory in its own header"
        )
    rest = data[start + entry.packed_size : next_position]
    descriptor = _DESCRIPTOR.pack(*said)
    if rest not in ((descriptor, _DESCRIPTOR_MARK + descriptor) if has_descriptor else (b"",)):
        what = "its data descriptor" if has_descriptor else "nothing"
        raise entry.refuse(f"must be followed by {what}, then by the next entry")
    return start


def _unpack(data: bytes, entry: _Entry, start: int) -> bytes | None:
    """Return the content of a file, as long as it says; None for a folder."""
    packed = data[start : start + entry.packed_size]
    content = packed
    if entry.method == DEFLATED:
        stream = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            content = stream.decompress(packed, entry.size + 1)
        except zlib.error:
            raise entry.refuse("has damaged compressed data") from None
        if len(content) > entry.size:
            raise entry.refuse(f"must have the {entry.size} bytes that it says: it has more")
        if not stream.eof or stream.unused_data or stream.unconsumed_tail:
            raise entry.refuse("must have compressed data that end where it says")
    if len(content) != entry.size:
        raise entry.refuse(f"must have the {entry.size} bytes that it says (got {len(content)})")
    if zlib.crc32(content) != entry.crc:
        raise entry.refuse("does not have the checksum that it says: it was damaged or changed")
    return None if entry.is_folder else content


def _strip_top_folder(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return paths below the one top folder, if the manifest is only there."""
    kept = {
        path: data
        for path, data in files.items()
        if path.split("/")[0] != FINDER_FOLDER and path.split("/")[-1] != FINDER_FILE
    }
    tops = {path.partition("/")[0] for path in kept}
    top = f"{next(iter(tops), '')}/"
    if len(tops) != 1 or f"{top}{MANIFEST_PATH}" not in kept:
        return kept
    return {path.removeprefix(top): data for path, data in kept.items()}
