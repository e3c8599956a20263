"""Bundles of Covalt: the toolset in them, and what else people have to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sshwarma.imports.covalt_source import CovaltBundle, read_covalt
from sshwarma.imports.report import ImportReport
from sshwarma.imports.source import recognise_source
from sshwarma.toolsets.archive import read_archive
from sshwarma.world.errors import Invalid
from support.sources import hash_folder
from support.toolset_kit import kit, pack

SERVERS = """
mcp_servers:
  - {id: notes, command: python3, args: [/ts/s.py], env: {API_KEY: "${NOTES_KEY}"}, network: true}
requirements: [humanize==4.9.0]
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def read(source: Path) -> tuple[CovaltBundle, list[dict[str, Any]]]:
    report = ImportReport()
    return read_covalt(source, report), report.as_json()["left_out"]


def test_folder_and_archive_are_the_same_toolset(tmp_path: Path) -> None:
    folder = write(tmp_path / "kit", kit("kit"))
    before = hash_folder(folder)
    archive = tmp_path / "kit.zip"
    archive.write_bytes(pack(kit("kit"), "kit/"))
    assert recognise_source(folder) == recognise_source(archive) == "covalt"
    found, left_out = read(folder)
    assert left_out == []
    assert found.describe() == read(archive)[0].describe()
    assert {*read_archive(found.archive)} == {*kit("kit")}
    assert hash_folder(folder) == before


def test_what_people_have_to_do_is_reported(tmp_path: Path) -> None:
    files = kit("kit")
    files["toolset.yaml"] += SERVERS
    folder = write(tmp_path / "kit", {**files, ".env": "SECRET=1", "node_modules/x.js": "1"})
    (folder / "passwd").symlink_to("/etc/passwd")
    _, left_out = read(folder)
    named = {one["what"]: one["names"] for one in left_out}
    assert named == {
        "files": [".env", "passwd", "node_modules/x.js"],
        "packages": ["humanize==4.9.0"],
        "network": ["notes"],
        "variables": ["NOTES_KEY"],
    }


def test_bundle_that_the_server_would_refuse_is_refused_at_once(tmp_path: Path) -> None:
    files = kit("kit")
    secret = SERVERS.replace("${NOTES_KEY}", "sk-0123456789abcdef0123456789abcdef0123456789abcdef")
    files["toolset.yaml"] += secret
    with pytest.raises(Invalid, match=r"toolset\.yaml"):
        read(write(tmp_path / "secret", files))
    with pytest.raises(Invalid):
        read(write(tmp_path / "empty", {"toolset.yaml": "id: ["}))
    (tmp_path / "half.zip").write_bytes(pack(kit("kit"))[:200])
    with pytest.raises(Invalid):
        read(tmp_path / "half.zip")
