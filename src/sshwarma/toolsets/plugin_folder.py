"""The folder `tools/`: which of its folders are plugins, and their files."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sshwarma.common.limits import MAX_ARCHIVE_ENTRIES, MAX_BUNDLE_BYTES, MAX_PLUGINS
from sshwarma.common.messages import with_limit
from sshwarma.common.reported_error import ReportedError
from sshwarma.common.units import MIB
from sshwarma.toolsets.bundle import BundleFile, find_kind, hash_files
from sshwarma.toolsets.paths import find_bundle_path_problem

PLUGINS_FOLDER: Final = "tools"
"""The folder of plugins, in the directory where the server was started."""

_LEFT_OUT: Final = frozenset({"__pycache__", "node_modules"})


class PluginError(ReportedError):
    """A rule of plugins that is broken: in which file, and what would be right."""


@dataclass(frozen=True, slots=True)
class PluginFiles:
    """What was read of a folder with plugins.

    Attributes:
        root: the folder.
        folders: names of those that are plugins, in alphabetical order.
        contents: files by their paths, which begin with `tools/`.
        files: the same with their hashes, by path.
        tree: the hash of all files.
    """

    root: Path
    folders: tuple[str, ...]
    contents: Mapping[str, bytes]
    files: tuple[BundleFile, ...]
    tree: str

    def hash_folders(self, folders: Collection[str]) -> str:
        """Return the hash of the files in some folders, and of the modules beside them."""
        wanted = {}
        for file in self.files:
            folder, slash, _ = file.path.removeprefix(f"{PLUGINS_FOLDER}/").partition("/")
            if not slash or folder in folders:
                wanted[file.path] = file.sha256
        return hash_files(wanted)

    def name_file(self, path: str) -> str:
        """Return where a file is on this machine, by its path."""
        return name_file(self.root, path)


def plugin_path(folder: str, file: str = "") -> str:
    """Return the path of a plugin's folder, or of a file in it."""
    return f"{PLUGINS_FOLDER}/{folder}/{file}".rstrip("/")


def name_file(root: Path, path: str) -> str:
    """Return where a file of a plugin is on this machine, by its path; escaped."""
    named = str(root / path.removeprefix(f"{PLUGINS_FOLDER}/"))
    return named if named.isprintable() else ascii(named).strip("'")


def find_plugins_folder() -> Path:
    """Return the folder of plugins in the directory of this process.

    Raises:
        PluginError: if that directory was deleted.
    """
    try:
        return Path.cwd() / PLUGINS_FOLDER
    except OSError as error:
        raise PluginError(_describe_unreadable(Path(PLUGINS_FOLDER), error)) from error


def read_plugins(root: Path) -> PluginFiles:
    """Read the plugins in a folder, and the modules beside them.

    Other files and folders without `__init__.py` are left out, and so are hidden files and caches.
    A plugin may be a link to a folder; links within are refused, because they are copied, and one
    that leads elsewhere would bring what the plugin must not read. Blocks: call it in a thread.

    Raises:
        PluginError: if the folder cannot be read, or a file of a plugin cannot be copied.
    """
    try:
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
        folders = tuple(
            entry.name
            for entry in entries
            if not _is_left_out(entry.name)
            and entry.is_dir()
            and Path(entry.path, "__init__.py").is_file()
        )
    except OSError as error:
        raise PluginError(_describe_unreadable(root, error)) from error
    if len(folders) > MAX_PLUGINS:
        raise PluginError(f"{root}: {with_limit('there are too many plugins', MAX_PLUGINS)}.")
    contents: dict[str, bytes] = {}
    for entry in entries:
        if _is_shared_module(entry):
            _add_file(contents, root, plugin_path(entry.name), Path(entry.path))
    for folder in folders:
        for path, file in _list_files(root, plugin_path(folder), root / folder):
            _add_file(contents, root, path, file)
    files = tuple(
        BundleFile(path, find_kind(path, ()), hashlib.sha256(content).hexdigest(), len(content))
        for path, content in sorted(contents.items())
    )
    tree = hash_files({file.path: file.sha256 for file in files})
    return PluginFiles(root, folders, contents, files, tree)


def _is_shared_module(entry: os.DirEntry[str]) -> bool:
    """Return whether a file beside the plugins is a module, such as tools/common.py."""
    is_plain = entry.is_file(follow_symlinks=False) and os.access(entry.path, os.R_OK)
    return is_plain and entry.name.endswith(".py") and not _is_left_out(entry.name)


def _list_files(root: Path, path: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a plugin with their paths, folder by folder.

    Raises:
        PluginError: if one is a link, or no file that can be copied.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        for entry in entries:
            inner = f"{path}/{entry.name}"
            if _is_left_out(entry.name):
                continue
            if problem := find_bundle_path_problem(inner):
                raise PluginError(f"{name_file(root, inner)}: the name {problem}.")
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                raise PluginError(
                    f"{name_file(root, inner)}: is a symbolic link, and plugins are copied. Put"
                    " the file itself there."
                )
            if stat.S_ISDIR(mode):
                yield from _list_files(root, inner, Path(entry.path))
            elif stat.S_ISREG(mode):
                yield inner, Path(entry.path)
    except OSError as error:
        raise PluginError(_describe_unreadable(folder, error)) from error


def _add_file(contents: dict[str, bytes], root: Path, path: str, file: Path) -> None:
    """Read a file, if all of them stay in their limits.

    Raises:
        PluginError: if not, or if it cannot be read.
    """
    if len(contents) == MAX_ARCHIVE_ENTRIES:
        raise PluginError(f"{root}: {with_limit('there are too many files', len(contents))}.")
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as opened:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return  # it was replaced since it was listed
            left = MAX_BUNDLE_BYTES - sum(map(len, contents.values()))
            content = opened.read(left + 1)
    except OSError as error:
        raise PluginError(_describe_unreadable(file, error)) from error
    if len(content) > left:
        limit = f"{MAX_BUNDLE_BYTES // MIB} MiB"
        raise PluginError(f"{root}: {with_limit('the files of plugins are too large', limit)}.")
    contents[path] = content


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or name in _LEFT_OUT


def _describe_unreadable(root: Path, error: OSError) -> str:
    """Describe what of a folder of plugins cannot be read, and what would be right."""
    path = str(error.filename or root)
    named = path if path.isprintable() else ascii(path)
    fix = (
        f"Make a folder {PLUGINS_FOLDER}/ in the directory where the server is started, or start it"
        " without --load-custom-tools."
        if path == str(root)
        else "Let the user of the server read it, or take it away."
    )
    return f"{named}: the plugins cannot be read: {error.strerror}. {fix}"
