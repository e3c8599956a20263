"""A maker of archives with hand-written headers, and archives to accept."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from typing_extensions import Buffer

MANIFEST = b'manifest_version: "1"\nid: demo\nname: Demo\nversion: "1.0.0"\n'
FILE = (stat.S_IFREG | 0o644) << 16
FOLDER = (stat.S_IFDIR | 0o755) << 16 | 0x10
LINK = (stat.S_IFLNK | 0o777) << 16


def deflate(data: bytes, level: int = 6) -> bytes:
    stream = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


@dataclass(frozen=True)
class Entry:
    """An entry; values of None are computed, `own_` ones stand in its own header."""

    name: bytes = b"a.txt"
    data: bytes = b"text"
    method: int = 8
    flags: int = 0
    attributes: int = FILE
    packed: bytes | None = None
    crc: int | None = None
    size: int | None = None
    packed_size: int | None = None
    offset: int | None = None
    disk: int = 0
    made_by: int = 3 << 8 | 20
    extra: bytes = b""
    comment: bytes = b""
    own_name: bytes | None = None
    own_flags: int | None = None
    own_method: int | None = None
    own_sizes: tuple[int, int, int] | None = None
    own_extra: bytes = b""
    own_mark: bytes = b"PK\x03\x04"
    mark: bytes = b"PK\x01\x02"
    after: bytes = b""
    is_hidden: bool = False

    def sizes(self) -> tuple[int, int, int]:
        body = self.body()
        return (
            zlib.crc32(self.data) if self.crc is None else self.crc,
            len(body) if self.packed_size is None else self.packed_size,
            len(self.data) if self.size is None else self.size,
        )

    def body(self) -> bytes:
        if self.packed is not None:
            return self.packed
        return deflate(self.data) if self.method == 8 else self.data

    def descriptor(self) -> bytes:
        return struct.pack("<3I", *self.sizes())

    def local(self) -> bytes:
        name = self.name if self.own_name is None else self.own_name
        flags = self.flags if self.own_flags is None else self.own_flags
        method = self.method if self.own_method is None else self.own_method
        sizes = self.sizes() if self.own_sizes is None else self.own_sizes
        head = struct.pack(
            "<4s5H3I2H", self.own_mark, 20, flags, method, 0, 33, *sizes, len(name),
            len(self.own_extra),
        )  # fmt: skip
        return head + name + self.own_extra + self.body() + self.after

    def central(self, offset: int) -> bytes:
        head = struct.pack(
            "<4s6H3I5H2I", self.mark, self.made_by, 20, self.flags, self.method, 0, 33,
            *self.sizes(), len(self.name), len(self.extra), len(self.comment), self.disk, 0,
            self.attributes, offset if self.offset is None else self.offset,
        )  # fmt: skip
        return head + self.name + self.extra + self.comment


@dataclass(frozen=True)
class Archive:
    """An archive; values of None are computed."""

    entries: tuple[Entry, ...]
    before: bytes = b""
    gap: bytes = b""
    in_directory: bytes = b""
    comment: bytes = b""
    after: bytes = b""
    disk: int = 0
    first_disk: int = 0
    count: int | None = None
    disk_count: int | None = None
    size: int | None = None
    offset: int | None = None
    central_order: Callable[[list[bytes]], list[bytes]] = field(default=lambda parts: parts)

    def write(self) -> bytes:
        out, directory = self.before, []
        for entry in self.entries:
            if not entry.is_hidden:
                directory.append(entry.central(len(out)))
            out += entry.local()
        out += self.gap
        central = b"".join(self.central_order(directory)) + self.in_directory
        count = len(directory) if self.count is None else self.count
        end = struct.pack(
            "<4s4H2IH", b"PK\x05\x06", self.disk, self.first_disk,
            count if self.disk_count is None else self.disk_count, count,
            len(central) if self.size is None else self.size,
            len(out) if self.offset is None else self.offset, len(self.comment),
        )  # fmt: skip
        return out + central + end + self.comment + self.after


TOP = Entry(b"toolset.yaml", MANIFEST)


def make(*entries: Entry) -> bytes:
    return Archive((TOP, *entries)).write()


def with_zipfile(method: int = zipfile.ZIP_DEFLATED, top: str = "") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr(f"{top}toolset.yaml", MANIFEST)
        archive.writestr(f"{top}tools/a.py", b"x = 1\n" * 3)
    return out.getvalue()


class _Stream(io.RawIOBase):
    """An output that cannot be sought: zipfile then writes data descriptors."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        added = bytes(data)
        self.data += added
        return len(added)


def streamed() -> bytes:
    out = _Stream()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("toolset.yaml", MANIFEST)
        archive.writestr("tools/a.py", b"x = 1\n" * 3)
    return out.data


TIMES = struct.pack("<2HBI", 0x5455, 5, 1, 0) + struct.pack("<2HBBIBI", 0x7875, 11, 1, 4, 0, 4, 0)
"""Extra fields that Info-ZIP writes: times, and numbers of the user and the group."""


def accepted() -> dict[str, bytes]:
    """Archives by name, each with a manifest and `tools/a.py`."""
    tool = Entry(b"tools/a.py", b"x = 1\n" * 3)
    open_ended = replace(tool, flags=8, own_sizes=(0, 0, 0))
    finder = Entry(b"__MACOSX/demo/._toolset.yaml", b"\0\5\x16\7")
    return {
        "zipfile, deflated": with_zipfile(),
        "zipfile, stored": with_zipfile(zipfile.ZIP_STORED),
        "zipfile, in one folder": with_zipfile(top="demo/"),
        "zipfile, streamed": streamed(),
        "times and owners in extra fields": make(replace(tool, extra=TIMES, own_extra=TIMES)),
        "folders": make(
            Entry(b"tools/", b"", method=0, attributes=FOLDER),
            tool,
            Entry(b"assets/", b"", method=8, attributes=0),
        ),
        "descriptor with a mark": make(
            replace(open_ended, after=b"PK\x07\x08" + open_ended.descriptor())
        ),
        "descriptor without a mark": make(replace(open_ended, after=open_ended.descriptor())),
        "descriptor and sizes before": make(
            replace(tool, flags=8, after=b"PK\x07\x08" + tool.descriptor())
        ),
        "made on DOS": make(replace(tool, made_by=20, attributes=0x20)),
        "flag of UTF-8 and of a level": make(replace(tool, flags=0x802)),
        "directory in another order": Archive(
            (TOP, tool), central_order=lambda parts: parts[::-1]
        ).write(),
        "by the Finder": Archive(
            (
                replace(TOP, name=b"demo/toolset.yaml"),
                replace(tool, name=b"demo/tools/a.py"),
                finder,
                Entry(b".DS_Store", b"\0\0\0\1Bud1"),
                Entry(b"demo/tools/.DS_Store", b"\0\0\0\1Bud1"),
            ),
        ).write(),
        "comment of the archive": Archive((TOP, tool), comment=b"made by hand, 2026").write(),
        "id of a commit": Archive(
            (TOP, tool), comment=b"0123456789abcdef" * 2 + b"01234567"
        ).write(),
        "comment of an entry": make(replace(tool, comment=b"by hand")),
        "executable": make(replace(tool, attributes=(stat.S_IFREG | 0o755) << 16)),
        "empty file": make(tool, Entry(b"tools/__init__.py", b""), Entry(b"b", b"", method=0)),
    }
