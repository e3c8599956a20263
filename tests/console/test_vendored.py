"""Third-party code of the console, as `make vendor` has written it."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from pathlib import Path

from sshwarma.web.console.frames import STATIC

TOP = Path(__file__).parent.parent.parent
VENDOR = STATIC / "vendor"
VERSIONS = json.loads((VENDOR / "versions.json").read_text())


def test_vendored_files_are_those_that_were_built() -> None:
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.iterdir()
        if path.name != "versions.json"
    }
    assert found == VERSIONS["sha256"]


def test_vendored_versions_are_those_of_the_lock() -> None:
    lock = json.loads((TOP / "vendor/package-lock.json").read_text())["packages"]
    for name, package in VERSIONS["packages"].items():
        assert lock[f"node_modules/{name}"]["version"] == package["version"], name
    assert all("resolved" not in one for one in lock.values()), "names the registry of a machine"
    assert all("integrity" in one for path, one in lock.items() if path)


def test_licence_of_each_vendored_package_is_listed_and_in_the_wheel() -> None:
    text = (VENDOR / "LICENSES.txt").read_text()
    for name, package in VERSIONS["packages"].items():
        assert f"{name} {package['version']} ({package['license']})\n" in text
        assert package["license"] == "MIT"
    project = tomllib.loads((TOP / "pyproject.toml").read_text())
    licence_files = project["project"]["license-files"]
    assert str((VENDOR / "LICENSES.txt").relative_to(TOP)) in licence_files
    folders = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert any((TOP / folder) in VENDOR.parents for folder in folders)


def test_vendored_scripts_need_no_exception_from_the_policy() -> None:
    for path in VENDOR.glob("*.js"):
        text = path.read_text()
        assert not re.search(r"""createElement\(["'`]style["'`]\)""", text), path.name
        assert "new Function(" not in text, path.name
        assert not re.search(r"""\bimport\(["'`]http""", text), path.name
