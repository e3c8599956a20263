"""Reading a bundle of Covalt, which is installed as a toolset."""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sshwarma.common.limits import MAX_ARCHIVE_BYTES
from sshwarma.common.units import MIB
from sshwarma.imports.report import ImportReport
from sshwarma.toolsets.archive import check_archive_size, read_archive
from sshwarma.toolsets.bundle import Bundle, hash_files, read_bundle
from sshwarma.toolsets.local_folder import read_folder
from sshwarma.toolsets.servers import read_servers
from sshwarma.world.errors import Invalid

IMPORT: Final = "ssh HOST toolset import"
_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class CovaltBundle:
    """A bundle: its toolset, a hash of its files, and the ZIP file that is installed."""

    bundle: Bundle
    tree: str
    archive: bytes

    def describe(self) -> dict[str, Any]:
        """Return its id, its version and the hash, as the server compares them."""
        manifest = self.bundle.manifest
        return {"id": manifest.id, "version": manifest.version, "tree": self.tree}


def read_covalt(source: Path, report: ImportReport) -> CovaltBundle:
    """Read a bundle in a folder or a ZIP file, and report what is not imported of it.

    Raises:
        Invalid: if it is not as a toolset must be; the text names file and field.
        OSError: if a file cannot be read.
    """
    if source.is_dir():
        files = read_folder(source)
        archive = _pack(files)
        _report_left_out(source, files, report)
    else:
        check_archive_size(source.stat().st_size)
        archive = source.read_bytes()
        files = read_archive(archive)
    bundle = read_bundle(files)
    manifest = bundle.manifest
    read_servers(manifest, bundle.describe_problem)  # refuses what the server would refuse
    wanted = {
        "packages": manifest.requirements,
        "network": tuple(server.id for server in manifest.mcp_servers if server.network),
    }
    for flag, names in wanted.items():
        for name in names:
            reason = f"all of it is refused until an owner runs: {IMPORT} --{flag} < FILE.zip"
            report.leave_out(flag, name, reason)
    servers = "".join(server.model_dump_json() for server in manifest.mcp_servers)
    for name in sorted({*_VARIABLE.findall(servers)}):
        report.leave_out("variables", name, "the environment of the server must have them")
    return CovaltBundle(bundle, hash_files(bundle.hashes), archive)


def _report_left_out(folder: Path, files: Mapping[str, bytes], report: ImportReport) -> None:
    """Report the files that are not part of a toolset: hidden ones, caches and links."""
    for top, folders, names in os.walk(folder):
        for name in [*sorted(names), *(one for one in folders if Path(top, one).is_symlink())]:
            path = Path(top, name).relative_to(folder).as_posix()
            if path not in files:
                reason = "hidden files, caches and links are no part of a toolset"
                report.leave_out("files", path, reason)


def _pack(files: Mapping[str, bytes]) -> bytes:
    """Return a ZIP file of files; the same for the same files."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files):
            archive.writestr(zipfile.ZipInfo(path), files[path], zipfile.ZIP_DEFLATED)
    data = target.getvalue()
    if len(data) > MAX_ARCHIVE_BYTES:
        raise Invalid(
            f"The folder has {len(data) // MIB} MiB as a ZIP file.",
            hint=f"A toolset may have at most {MAX_ARCHIVE_BYTES // MIB} MiB.",
        )
    return data
