"""A bundle: the files of a toolset, checked against its manifest.

No code of it is run.

An entrypoint such as `tools.files:write_file` names a module by its path from the top of the
bundle, or from `tools/`: `files:write_file` is the same. Where both exist, the path from the top
counts. Either way the module is known as `tools.files`, the top is where Python looks for modules,
and a module finds another with `from tools.helpers import x`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sshwarma.common.near_names import suggest_near_names
from sshwarma.common.shorten import shorten_name
from sshwarma.toolsets.archive import MANIFEST_PATH
from sshwarma.toolsets.input_schema import find_schema_problem
from sshwarma.toolsets.manifest import ENTRYPOINT_PATTERN, ToolsetManifest
from sshwarma.toolsets.manifest_errors import InvalidManifest, add_line, problems_error
from sshwarma.toolsets.manifest_lines import ManifestLines
from sshwarma.toolsets.manifest_reading import list_overrides, read_manifest

FileKind: TypeAlias = Literal["python", "artifact", "asset", "config"]

TOOLS_FOLDER: Final = "tools"
_KIND_OF_FOLDER: Final[dict[str, FileKind]] = {"artifacts": "artifact", "assets": "asset"}
_CONFIG_ENDINGS: Final = (".cfg", ".ini", ".json", ".toml", ".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class BundleFile:
    """A file of a bundle.

    Attributes:
        path: from the top of the bundle.
        kind: `python` for modules; `artifact` for pages of renderers and what is in `artifacts/`;
            `asset` for what is in `assets/`; `config` for the manifest and other settings. All
            else is an `asset`.
        sha256: hash of the content, in hexadecimal.
        size: bytes.
    """

    path: str
    kind: FileKind
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Entrypoint:
    """Where a tool begins: a module from the top of the bundle, its file, a function."""

    module: str
    path: str
    function: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """A checked bundle.

    Attributes:
        manifest: what `toolset.yaml` says.
        files: all files by path, the manifest too, in alphabetical order.
        contents: bytes of each file, by path.
        entrypoints: of each tool, by its id.
        lines: of the manifest.
    """

    manifest: ToolsetManifest
    files: tuple[BundleFile, ...]
    contents: Mapping[str, bytes]
    entrypoints: Mapping[str, Entrypoint]
    lines: ManifestLines

    def describe_problem(self, problem: str) -> str:
        """Return a problem of the manifest with its file and line, as a clause.

        Args:
            problem: which begins with the place that it is about, such as `tools[2].name: …`.
        """
        return f"{MANIFEST_PATH}: {add_line(problem, self.lines.find(problem))}"

    @property
    def hashes(self) -> dict[str, str]:
        """The hash of each file by its path."""
        return {file.path: file.sha256 for file in self.files}


def read_bundle(files: Mapping[str, bytes]) -> Bundle:
    """Read the manifest among the files, and check that they have what it names.

    Args:
        files: contents by path from the top of the bundle, as `read_archive` returns them.

    Raises:
        InvalidManifest: if the manifest is missing, or a field of it is wrong, or names a file
            that is not there; the text names the field.
        Invalid: if the manifest is no YAML that one may have; the text names the line.
    """
    if MANIFEST_PATH not in files:
        raise _missing_manifest(files)
    manifest = read_manifest(files[MANIFEST_PATH])
    entrypoints = {}
    problems: list[str] = []
    for index, tool in enumerate(manifest.tools):
        found = find_entrypoint(tool.entrypoint, files)
        if isinstance(found, Entrypoint):
            entrypoints[tool.id] = found
        else:
            problems.append(f"tools[{index}].entrypoint: {found}")
        if tool.input_schema is not None and (problem := find_schema_problem(tool.input_schema)):
            problems.append(f"tools[{index}].input_schema: {problem}")
    artifacts = dict(_list_artifacts(manifest))
    problems += [
        f"{place}: {shorten_name(path)} is not in the toolset"
        for path, place in artifacts.items()
        if path not in files
    ]
    lines = ManifestLines(files[MANIFEST_PATH])
    if problems:
        raise problems_error(problems, lines.find)
    described = tuple(
        BundleFile(
            path, find_kind(path, artifacts), hashlib.sha256(content).hexdigest(), len(content)
        )
        for path, content in sorted(files.items())
    )
    return Bundle(manifest, described, dict(files), entrypoints, lines)


def find_kind(path: str, artifacts: Container[str]) -> FileKind:
    """Return the kind of a file by its path.

    Args:
        path: from the top of the bundle.
        artifacts: paths that renderers name.
    """
    if path in artifacts:
        return "artifact"
    top, slash, _ = path.partition("/")
    if slash and top in _KIND_OF_FOLDER:
        return _KIND_OF_FOLDER[top]
    if path.endswith(".py"):
        return "python"
    return "config" if path.endswith(_CONFIG_ENDINGS) else "asset"


def find_entrypoint(entrypoint: str, files: Mapping[str, bytes]) -> Entrypoint | str:
    """Return where a tool begins, or why not, as the rest of a sentence.

    The function is looked up when the toolset is imported in a sandbox, not here.

    Args:
        entrypoint: `MODULE:FUNCTION`, as a manifest has it.
        files: files of the bundle, by path.
    """
    matched = ENTRYPOINT_PATTERN.fullmatch(entrypoint)
    if matched is None:
        return "must be MODULE:FUNCTION, such as tools.files:write_file"
    module, function = matched["module"], matched["function"]
    for name in (module, f"{TOOLS_FOLDER}.{module}"):
        stem = name.replace(".", "/")
        for path in (f"{stem}/__init__.py", f"{stem}.py"):
            if path in files:
                hiding = _find_hiding_module(stem, files)
                if hiding:
                    return f"{hiding} hides {path} from Python: give one of them another name"
                return Entrypoint(name, path, function)
    stem = module.replace(".", "/")
    tried = [f"{stem}.py"] if stem.startswith(f"{TOOLS_FOLDER}/") else [
        f"{stem}.py", f"{TOOLS_FOLDER}/{stem}.py"
    ]  # fmt: skip
    near = suggest_near_names(f"{stem}.py", [path for path in files if path.endswith(".py")])
    hint = f" ({near[0].lower()}{near[1:]})" if near else ""
    missing = shorten_name(" nor ".join(tried))
    if len(tried) > 1:
        return f"neither {missing} is in the toolset{hint}"
    return f"{missing} is not in the toolset{hint}"


def _find_hiding_module(stem: str, files: Mapping[str, bytes]) -> str:
    """Return a module that Python takes for a folder on the way to another, or ""."""
    parts = stem.split("/")
    for length in range(1, len(parts)):
        above = "/".join(parts[:length])
        if f"{above}.py" in files and f"{above}/__init__.py" not in files:
            return f"{above}.py"
    return ""


def _list_artifacts(manifest: ToolsetManifest) -> Iterator[tuple[str, str]]:
    """Yield the path of each page of a renderer, with the field that names it."""
    indexes = {f"{manifest.id}:{tool.id}": index for index, tool in enumerate(manifest.tools)}
    for index, override in enumerate(list_overrides(manifest)):
        if override.renderer is None or override.renderer.name != "html":
            continue
        is_canonical = index < len(manifest.tool_overrides) and bool(
            manifest.tool_overrides[index].renderer
        )
        above = (
            f"tool_overrides[{index}].renderer_config"
            if is_canonical
            else f"tools[{indexes[override.tool_id]}].renderer"
        )
        yield override.renderer.config["artifact"], f"{above}.artifact"


def _missing_manifest(files: Mapping[str, bytes]) -> InvalidManifest:
    text = f"{MANIFEST_PATH} is missing: it must be at the top, or in the only folder at the top."
    alike = [
        path
        for path in files
        if path.rpartition("/")[2].lower().replace(".yml", ".yaml") == MANIFEST_PATH
    ]
    found = f" There is {shorten_name(alike[0])}." if alike else ""
    return InvalidManifest(f"{text}{found}")


def hash_files(files: Mapping[str, str]) -> str:
    """Return the hash of a toolset's files, given the hash of each."""
    digest = hashlib.sha256()
    for path, sha256 in sorted(files.items()):
        digest.update(os.fsencode(f"{sha256} {path}\n"))
    return digest.hexdigest()
