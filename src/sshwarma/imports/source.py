"""A source of an import: which kind of thing it is, and what it has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from sshwarma.imports.items import Step
from sshwarma.imports.plugins import SourcePlugin, find_plugins
from sshwarma.imports.report import ImportReport
from sshwarma.imports.slbp_source import DATABASE_FILES, MEMORY_FILES, MemoryReader, is_sqlite
from sshwarma.imports.slop_source import SlopReader
from sshwarma.imports.sql_dump import TABLE
from sshwarma.imports.sqlite_source import open_sqlite
from sshwarma.toolsets.archive import MANIFEST_PATH
from sshwarma.toolsets.plugin_folder import PLUGINS_FOLDER
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.projects import is_place

SourceKind: TypeAlias = Literal["slop", "covalt", "slbp"]
SOURCE_KINDS: Final[tuple[SourceKind, ...]] = get_args(SourceKind)

KIND_NAMES: Final[dict[SourceKind, str]] = {
    "slop": "a database of std::slop",
    "covalt": "a bundle of Covalt",
    "slbp": "a folder or a memory of SLBP",
}

_ZIP_MAGIC: Final = b"PK\x03\x04"
_EXPECTED: Final = (
    "It can be a database of std::slop, a bundle of Covalt (a folder or ZIP file with"
    " toolset.yaml), a folder of SLBP (tools, project_memory.sql, .csv, .jsonl, .json or .db)"
    " or one such file."
)


def check_source(source: Path, kind: SourceKind) -> None:
    """Raise unless a source can be of a kind: a device or a pipe would never end.

    Raises:
        NotFound: if it does not exist.
        Invalid: if it is no file, or a folder that is not of that kind.
    """
    _check_exists(source)
    if source.is_dir() and (kind == "slop" or _recognise_folder(source) != kind):
        raise Invalid(f"{source} is not {KIND_NAMES[kind]}.", hint=_EXPECTED)


def _check_exists(source: Path) -> None:
    if not os.path.lexists(source):
        raise NotFound(f"{source} does not exist.")
    if not (source.is_dir() or source.is_file()) or not is_place(os.path.realpath(source)):
        raise Invalid(f"{source} is neither a file nor a folder.", hint=_EXPECTED)


def recognise_source(source: Path) -> SourceKind:
    """Return the kind of a source, by its content.

    Raises:
        NotFound: if it does not exist.
        Invalid: if it cannot be imported.
        OSError: if it cannot be read.
    """
    _check_exists(source)
    kind = _recognise_folder(source) if source.is_dir() else _recognise_file(source)
    if kind is None:
        raise Invalid(f"{source} is nothing that can be imported.", hint=_EXPECTED)
    return kind


def _recognise_folder(folder: Path) -> SourceKind | None:
    if (folder / MANIFEST_PATH).is_file():
        return "covalt"
    names = (*MEMORY_FILES, *DATABASE_FILES, PLUGINS_FOLDER)
    return "slbp" if any((folder / name).exists() for name in names) else None


def _recognise_file(file: Path) -> SourceKind | None:
    if is_sqlite(file):
        with open_sqlite(file) as source:
            tables = source.tables
        if "messages" in tables or "sessions" in tables:
            return "slop"
        return "slbp" if TABLE in tables else None
    with file.open("rb") as stream:
        if stream.read(len(_ZIP_MAGIC)) == _ZIP_MAGIC:
            return "covalt"
    return "slbp" if file.suffix.lower() in (".sql", ".csv", ".jsonl", ".json") else None


def read_slop(source: Path, report: ImportReport) -> Iterator[Step]:
    """Yield the steps of a database of std::slop.

    Raises:
        Invalid: if it is another file, or cannot be read.
    """
    if not is_sqlite(source):
        raise Invalid(f"{source} is no database of SQLite.", hint=_EXPECTED)
    with open_sqlite(source) as opened:
        if not {"messages", "sessions"} & {*opened.tables}:
            opened.check_table("messages", ())  # a view of that name is refused as such
            raise Invalid(f"{source} has neither a table messages nor sessions.", hint=_EXPECTED)
        yield from SlopReader(opened, report).read_steps()


def read_slbp(source: Path, report: ImportReport) -> Iterator[Step]:
    """Yield the steps of a folder or a memory of SLBP.

    Raises:
        Invalid: if a file of it cannot be read.
    """
    files = [source]
    if source.is_dir():
        files = []
        for name in (*MEMORY_FILES, *DATABASE_FILES):
            file = source / name
            if file.is_symlink():
                report.leave_out("files", name, "it is a link: name the file itself")
            elif file.is_file():
                files.append(file)
            elif file.exists():
                report.leave_out("files", name, "it is no file")
        for plugin in find_plugins(source):
            report.leave_out("plugins", plugin.name, _describe_plugin(plugin))
    for file in files:
        try:
            yield from MemoryReader(file, report).read_steps()
        except PermissionError:
            if file is source:
                raise
            report.leave_out("files", file.name, "it cannot be read")


def _describe_plugin(plugin: SourcePlugin) -> str:
    """Return why a plugin is not imported, and what people can do."""
    if plugin.problem:
        return f"it would not load: {plugin.problem}"
    return (
        f"its {len(plugin.tools)} tools are code: copy it into the folder tools of the directory in"
        " which the server is started, and start it with --load-custom-tools; before, sshwarma"
        " plugins check FOLDER says whether it would load"
    )
