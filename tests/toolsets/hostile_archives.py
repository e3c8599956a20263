"""Archives to refuse, each wrong in one place, with words of its refusal."""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace

from toolsets.archives import FOLDER, LINK, TOP, Archive, Entry, deflate, make


def names() -> Iterator[tuple[str, bytes, str]]:
    """What is wrong with a name, the name, and words of its refusal."""
    for name in (b"../x", b"a/../../x", b"a/..", b"..", b"a/../b"):
        yield f"name {name!r}", name, "must not leave the toolset (..)"
    for name in (b"/etc/x", b"//etc/x", b"~/x", b"~root/x"):
        yield f"name {name!r}", name, "must be relative"
    for name in (b"a\\b", b"..\\x", b"\\\\host\\x", b"a/b\\..\\c"):
        yield f"name {name!r}", name, "not \\"
    for name in (b"C:/x", b"C:x", b"c:\\x", b"a/b:stream", b":"):
        yield f"name {name!r}", name, "colon"
    for name in (b"", b"./x", b"a/./b", b"a//b", b"a/.", b"a//", b"/"):
        yield f"name {name!r}", name, "empty folder name"
    for character in (
        "\0", "\n", "\r", "\t", "\x1b", "\x7f", "\x85", "\u200b", "\u200e", "\u202e", "\u2066",
        "\ufeff", "\u2028", "\u2029", "\ue000", "\uffff", "\U000e0041", "\U00010ffe", "\u0378",
        "\u3164", "\u00ad",
    ):  # fmt: skip
        yield f"name with {character!r}", f"a{character}b".encode(), "must not contain U+"
    for name in (b"\xff", b"caf\x82.txt", b"\xc0\xae\xc0\xae/x", b"\xed\xa0\x80", b"a\xc3"):
        yield f"name {name!r}", name, "UTF-8"
    yield "name of 256 bytes", b"a" * 256, "at most 255"
    yield "name of 258 bytes in 86 letters", "\u4e2d".encode() * 86, "at most 255"
    yield "path of 1,025 bytes", b"/".join([b"a" * 204] * 5) + b"a", "at most 1024"
    yield "path of 17 names", b"/".join([b"a"] * 17), "at most 16"


def _of_one_entry() -> Iterator[tuple[str, Entry, str]]:
    """What is wrong with a name or a kind, the entry, and words of the refusal."""
    plain = Entry()
    for label, name, words in names():
        yield label, replace(plain, name=name), words
    for flag in (1, 0x10, 0x20, 0x40, 0x80, 0x1000, 0x2000, 0x4000, 0x8000):
        words = "encrypted" if flag == 1 else "no flags but"
        yield f"flag {flag:#x}", replace(plain, flags=flag), words
    for method in (1, 6, 9, 12, 14, 93, 95, 97, 98, 99):
        yield f"method {method}", replace(plain, method=method), "stored or deflated"
    for kind in (stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK, 0xF000):
        entry = replace(plain, attributes=(kind | 0o644) << 16)
        yield f"kind {kind:#x}", entry, "device, pipe"
    yield "link", replace(plain, data=b"/etc/passwd", attributes=LINK), "symbolic link"
    yield "relative link", replace(plain, data=b"b", attributes=LINK, method=0), "symbolic link"
    yield "link made on DOS", replace(plain, attributes=LINK, made_by=20), "symbolic link"
    yield "link to a folder", replace(plain, name=b"d/", attributes=LINK), "symbolic link"
    yield "name of a disk", replace(plain, attributes=8), "name of a disk"
    yield "folder without /", replace(plain, data=b"", attributes=FOLDER), "end with /"
    yield "folder of DOS without /", replace(plain, data=b"", attributes=0x10), "end with /"
    yield "file with /", replace(plain, name=b"d/", data=b""), "folder by its name"
    yield "folder with content", replace(plain, name=b"d/", attributes=FOLDER), "folder by its name"


def _of_one_content() -> Iterator[tuple[str, Entry, str]]:
    """What is wrong with sizes or contents, the entry, and words of the refusal."""
    plain = Entry()
    for number, what in ((1, "zip64"), (0x7075, "second name")):
        extra = struct.pack("<2H8s", number, 8, b"")
        yield f"extra field {what}", replace(plain, extra=extra), what
        yield f"own extra field {what}", replace(plain, own_extra=extra), what
    yield "extra field cut", replace(plain, extra=b"UT\x05\x00\x01"), "damaged extra"
    yield "extra of 3 bytes", replace(plain, extra=b"abc"), "damaged extra"
    yield "own extra field cut", replace(plain, own_extra=b"UT\x05\x00\x01"), "damaged extra"
    yield "on disk 1", replace(plain, disk=1), "in this file"
    big = 0xFFFFFFFF
    yield "size of zip64", replace(plain, size=big, own_sizes=(0, 0, 0)), "zip64"
    yield "packed size of zip64", replace(plain, packed_size=big), "zip64"
    yield "offset of zip64", replace(plain, offset=big), "zip64"
    yield "32 MiB and a byte", replace(plain, size=(32 << 20) + 1), "at most 33554432"
    yield "ratio over 100", replace(plain, data=bytes(1 << 20)), "at most 100 times"
    yield "ratio of nothing", replace(plain, packed=b"", size=1), "at most 100 times"
    yield "says more", replace(plain, size=5), "(got 4)"
    yield "says less", replace(plain, size=3), "it has more"
    yield "says none", replace(plain, size=0), "it has more"
    yield "long behind its size", replace(plain, data=b"a" * 5_000, size=3), "it has more"
    yield "stored, says more", replace(plain, method=0, size=5), "same size"
    yield "wrong checksum", replace(plain, crc=1), "checksum that it says"
    yield "stored, wrong checksum", replace(plain, crc=1, method=0), "checksum that it says"
    yield "no deflate", replace(plain, packed=b"\xff\xff\xff\xff"), "damaged compressed"
    yield "deflate cut", replace(plain, packed=deflate(b"text")[:-1]), "end where it says"
    yield "bytes behind deflate", replace(plain, packed=deflate(b"text") + b"x"), "end where"
    yield "two streams", replace(plain, packed=deflate(b"te") + deflate(b"xt"), size=2), "end where"
    yield "zlib instead of deflate", replace(plain, packed=zlib.compress(b"text")), "compressed"
    yield "other own name", replace(plain, own_name=b"b.txt"), "same name"
    yield "longer own name", replace(plain, own_name=b"a.txt\0"), "same name"
    yield "other own flags", replace(plain, own_flags=0x800), "flags and the method"
    yield "own encryption", replace(plain, own_flags=1), "flags and the method"
    yield "other own method", replace(plain, own_method=0), "flags and the method"
    yield "other own sizes", replace(plain, own_sizes=(1, 2, 3)), "sizes and the checksum"
    yield "own sizes of 0", replace(plain, own_sizes=(0, 0, 0)), "sizes and the checksum"
    yield "wrong own mark", replace(plain, own_mark=b"PK\x03\x05"), "header of its own"
    yield "wrong mark", replace(plain, mark=b"PK\x01\x03"), "damaged"
    yield "hidden bytes", replace(plain, after=b"hidden"), "followed by nothing"
    yield "descriptor unasked", replace(plain, after=plain.descriptor()), "followed by nothing"
    asked = replace(plain, flags=8, own_sizes=(0, 0, 0))
    yield "no descriptor", asked, "its data descriptor"
    yield "wrong descriptor", replace(asked, after=bytes(12)), "its data descriptor"
    long = struct.pack("<4s3Q", b"PK\x07\x08", *plain.sizes()[:1], 4, 6)
    yield "descriptor of zip64", replace(asked, after=long[:24]), "its data descriptor"
    yield (
        "wrong sizes before a descriptor",
        replace(plain, flags=8, own_sizes=(0, 1, 0), after=plain.descriptor()),
        "sizes and the checksum",
    )
    yield "offset of the first", replace(plain, offset=0), "header of its own"
    yield "offset inside the first", replace(plain, offset=10), "header of its own"
    yield "offset behind all", replace(plain, offset=1 << 31), "before the directory"


def _of_several() -> Iterator[tuple[str, bytes, str]]:
    """What is wrong, an archive, and words of the refusal."""
    one = Entry(b"a", b"1")
    other = Entry(b"b", b"2")
    again = replace(one, data=b"2")
    yield "two equal names", make(one, again), "another name"
    for first, second in (
        ("a", "A"), ("caf\u00e9", "cafe\u0301"), ("\u00c9", "e\u0301"), ("stra\u00dfe", "STRASSE"),
        ("d/x", "D/X"), ("\u212b", "\u00e5"),
    ):  # fmt: skip
        pair = [Entry(name.encode(), b"1") for name in (first, second)]
        yield f"names {first} and {second}", make(*pair), "another name"
    folder = Entry(b"a/", b"", method=0, attributes=FOLDER)
    yield "file and folder of one name", make(one, folder), "another name"
    yield "folder twice", make(folder, folder), "another name"
    yield "file that is a folder", make(one, Entry(b"a/b")), "which is a file"
    yield "file in another case that is a folder", make(Entry(b"A/b/c"), one), "which is a file"
    yield "manifest twice", make(TOP), "another name"
    half = Entry(b"a", bytes(range(256)) * 400, method=0)
    quoted = replace(half, size=None, packed_size=None)
    start = len(TOP.local())
    yield "overlap", make(quoted, replace(other, offset=start + 40)), "overlap"
    yield "same bytes twice", make(one, replace(other, offset=start)), "header of its own"
    yield "gap", make(replace(other, is_hidden=True), one), "followed by nothing"
    yield "hidden first entry", Archive((replace(one, is_hidden=True), TOP)).write(), "before it"
    yield (
        "nested archive as stored data",
        make(replace(half, data=make(one), packed_size=10)),
        "same size",
    )
    yield (
        "entries over the limit",
        Archive(tuple(Entry(b"%d" % n, b"", method=0) for n in range(2_001))).write(),
        "1 to 2000 entries (got 2001)",
    )
    huge = tuple(
        Entry(b"%d" % n, b"", size=30 << 20, packed=bytes(320_000)) for n in range(5)
    )  # fmt: skip
    yield "128 MiB in all", make(*huge), "together"


def _of_the_comment() -> Iterator[tuple[str, bytes, str]]:
    good = Archive((TOP, Entry()))
    data = good.write()
    for label, comment in (
        ("two lines", b"a\nb"), ("a mark", b"a PK\x05 b"), ("letters beyond ASCII", b"\xc3\xa9"),
        ("zeros", bytes(40)),
    ):  # fmt: skip
        yield f"comment of {label}", replace(good, comment=comment).write(), "printable ASCII"
    mark = b"PK\x05\x06"
    yield "comment with a mark", replace(good, comment=b"x" * 30 + mark).write(), "must end"
    yield (
        "comment with a mark and text",
        replace(good, comment=mark + b" " * 40).write(),
        "comment of 8224 bytes",
    )
    noted = replace(good, comment=b"a" * 40).write()
    yield "comment cut", noted[:-1], "comment of 40 bytes: it has 39"
    yield "byte behind a comment", noted + b"a", "comment of 40 bytes: it has 41"
    yield "comment unsaid", data + b"a" * 40, "comment of 0 bytes: it has 40"
    yield "record behind a comment", noted + data[-22:], "must end where"
    yield (
        "archive in the comment",
        replace(good, comment=Archive((Entry(b"b"),)).write()).write(),
        "must end where",
    )
    inner = Archive((Entry(b"b"),))
    moved = replace(inner, offset=len(data) + len(inner.entries[0].local())).write()
    yield (
        "archive in the comment that says where it is",
        replace(good, comment=moved).write(),
        "in its own header",
    )
    yield (
        "comment that is an end record",
        replace(good, comment=Archive(()).write()).write(),
        "1 to 2000",
    )
    yield "comment that is missing", data[:-2] + b"\x05\x00", "comment of 5 bytes"


def _of_the_whole() -> Iterator[tuple[str, bytes, str]]:
    entries = (TOP, Entry())
    good = Archive(entries)
    data = good.write()
    yield "nothing", b"", "must begin"
    yield "empty archive", Archive(()).write(), "must begin"
    yield "text", b"manifest_version: 1", "must begin"
    yield "gzip", b"\x1f\x8b" + data, "must begin"
    yield "program before", replace(good, before=b"#!/bin/sh\n").write(), "must begin"
    yield "span mark before", replace(good, before=b"PK\x07\x08").write(), "must begin"
    yield "header alone", b"PK\x03\x04", "must end"
    yield "cut by a byte", data[:-1], "must end"
    yield "cut in half", data[: len(data) // 2], "must end"
    yield "byte behind", data + b"\0", "must end"
    yield "second archive behind", data + data, "directory"
    yield "disk 1", replace(good, disk=1).write(), "one part"
    yield "directory on disk 1", replace(good, first_disk=1).write(), "one part"
    yield "counts differ", replace(good, disk_count=1).write(), "one part"
    yield "count too small", replace(good, count=1).write(), "more than its 1"
    yield "count too large", replace(good, count=3).write(), "ends before entry 3"
    yield "count 0", replace(good, count=0).write(), "1 to 2000"
    yield "count of zip64", replace(good, count=0xFFFF).write(), "zip64"
    yield "offset of the directory zip64", replace(good, offset=0xFFFFFFFF).write(), "zip64"
    yield "size of the directory zip64", replace(good, size=0xFFFFFFFF).write(), "zip64"
    yield "offset off by one", replace(good, offset=1).write(), "must end where"
    yield "size off by one", replace(good, size=1).write(), "must end where"
    yield "bytes before the directory", replace(good, gap=b"hidden").write(), "followed by"
    yield "bytes in the directory", replace(good, in_directory=b"hidden").write(), "more than its"
    record = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 2, 2, 1, 1)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, 0, 1)
    zip64 = replace(good, in_directory=record + locator)
    yield "records of zip64", zip64.write(), "more than its"
    yield "32 MiB", data + bytes(32 << 20), "at most 32 MiB (33,554,432 bytes"


def refused() -> dict[str, tuple[bytes, str]]:
    """Archives by what is wrong with them, and words of their refusals."""
    singles = (*_of_one_entry(), *_of_one_content())
    cases = {label: (make(entry), words) for label, entry, words in singles}
    for label, data, words in (*_of_several(), *_of_the_whole(), *_of_the_comment()):
        assert label not in cases
        cases[label] = (data, words)
    return cases
