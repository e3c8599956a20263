"""Writes the archive of a toolset: its manifest without secrets, and its files.

The same manifest and files give the same bytes, wherever zlib is of the same version. An archive
that could not be imported again is not written.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from sshwarma.common.limits import MAX_ARCHIVE_ENTRIES, MAX_COMPRESSION_RATIO
from sshwarma.common.secret_detection import looks_like_key
from sshwarma.common.shorten import shorten_name
from sshwarma.toolsets.archive import (
    DEFLATED,
    DIRECTORY_HEADER,
    DIRECTORY_MARK,
    END_MARK,
    END_RECORD,
    LOCAL_HEADER,
    LOCAL_MARK,
    MANIFEST_PATH,
    STORED,
    UTF8_FLAG,
    InvalidArchive,
    read_archive,
)
from sshwarma.toolsets.manifest import ToolsetManifest
from sshwarma.toolsets.manifest_reading import read_manifest
from sshwarma.toolsets.paths import find_bundle_path_problem
from sshwarma.toolsets.secret_values import Replaced, find_variables, replace_secrets
from sshwarma.world.errors import Conflict

_FIRST_DAY: Final = 0x21
"""1 January 1980 as ZIP writes a date: the first that it has, and the same for every export."""

_UNIX: Final = 3 << 8 | 20
_FILE_MODE: Final = 0o100644 << 16
_EMPTY_BLOCK: Final = b"\x00\x00\x00\xff\xff"
"""A block of deflated data that holds nothing."""

MIN_SECRET_CHARACTERS: Final = 8
"""Characters of a replaced value that is looked for in other files: shorter ones are words."""


@dataclass(frozen=True, slots=True)
class Export:
    """An archive.

    Attributes:
        replaced: what was replaced in its manifest.
        variables: all that its manifest names, each with the first place where it stands.
    """

    data: bytes
    replaced: Sequence[Replaced]
    variables: Mapping[str, str]


class _Dumper(yaml.CSafeDumper):
    """A dumper for people: no aliases, long texts as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.Node:
        """Show a text of several lines as one."""
        style = "|" if "\n" in text.strip() else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)


def make_manifest(manifest: ToolsetManifest) -> bytes:
    """Return a `toolset.yaml` with the fields of a manifest, in a fixed order.

    Values that are the default are left out. Secrets are not: see `write_archive`.
    """
    fields = manifest.model_dump(mode="json", exclude_defaults=True)
    parts = [{name: value for name, value in fields.items() if not isinstance(value, list)}]
    parts += [{name: value} for name, value in fields.items() if isinstance(value, list)]
    return b"\n".join(
        yaml.dump(
            part,
            Dumper=_Dumper,
            encoding="utf-8",
            allow_unicode=True,
            sort_keys=False,
            width=100,
        )
        for part in parts
    )


def write_archive(manifest: ToolsetManifest, files: Mapping[str, bytes]) -> Export:
    """Write the archive of a toolset, with a manifest that has no secrets.

    Args:
        manifest: what `toolset.yaml` says; `replace_secrets` says what is replaced in it.
        files: contents by path from the top; a `toolset.yaml` among them is replaced.

    Raises:
        Conflict: if another file, or another part of the manifest, has a value that was replaced.
        InvalidArchive: if the files are more than an archive may have, or a path is not valid.
        InvalidManifest: if the manifest has values that `check_manifest` refuses.
    """
    clean, replaced = replace_secrets(manifest)
    contents = {MANIFEST_PATH: make_manifest(clean)}
    contents |= {path: files[path] for path in sorted(files) if path != MANIFEST_PATH}
    _check_no_secret(replaced, contents)
    data = _write(contents)
    read_manifest(read_archive(data)[MANIFEST_PATH])  # nobody gets what cannot be imported
    return Export(data, replaced, find_variables(clean))


def _check_no_secret(replaced: Sequence[Replaced], contents: Mapping[str, bytes]) -> None:
    """Refuse to write a replaced value elsewhere, unless it is a word."""
    for part in replaced:
        has_both = re.search(r"\d", part.value) and re.search(r"[A-Za-z]", part.value)
        if len(part.value) < MIN_SECRET_CHARACTERS or not (has_both or looks_like_key(part.value)):
            continue
        value = part.value.encode()
        for path, content in contents.items():
            if value in content:
                raise Conflict(
                    f"{shorten_name(path)} contains the value of {part.place}, which is left out of"
                    " archives because it may be a secret.",
                    hint="Remove it there, then export again.",
                )


def _write(contents: Mapping[str, bytes]) -> bytes:
    if len(contents) > MAX_ARCHIVE_ENTRIES:
        raise InvalidArchive(
            f"An archive must have at most {MAX_ARCHIVE_ENTRIES} files (got {len(contents)})."
        )
    for path in contents:
        if problem := find_bundle_path_problem(path):
            raise InvalidArchive(f"File {shorten_name(path)!r} {problem}.")
    out, directory = bytearray(), bytearray()
    for path, content in contents.items():
        name = path.encode()
        method, packed = _pack(content)
        sizes = (zlib.crc32(content), len(packed), len(content))
        shared = (20, UTF8_FLAG, method, 0, _FIRST_DAY, *sizes, len(name), 0)
        directory += DIRECTORY_HEADER.pack(
            DIRECTORY_MARK, _UNIX, *shared, 0, 0, 0, _FILE_MODE, len(out)
        )
        directory += name
        out += LOCAL_HEADER.pack(LOCAL_MARK, *shared) + name + packed
    count = len(contents)
    end = END_RECORD.pack(END_MARK, 0, 0, count, count, len(directory), len(out), 0)
    return bytes(out + directory + end)


def _pack(content: bytes) -> tuple[int, bytes]:
    """Return the method and the data of a file in the archive."""
    stream = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = stream.compress(content) + stream.flush()
    if len(packed) >= len(content):
        return STORED, content
    # Empty blocks bring what can be packed tighter down to the ratio that archives may have.
    missing = -(-len(content) // MAX_COMPRESSION_RATIO) - len(packed)
    return DEFLATED, _EMPTY_BLOCK * -(-max(missing, 0) // len(_EMPTY_BLOCK)) + packed
