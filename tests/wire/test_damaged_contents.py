"""A world that has lost the content of a file: what says so, and ways on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.driver import Server
from support.driver.fixtures import homes
from support.driver.server import forked_program


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of its own, of whose two files one has lost its content."""
    with homes() as home:
        made = Server(home())
        assert made.owner.run("file put plan.md = The first plan").status == 0
        (content,) = (made.data_dir / "blobs").glob("??/*")
        assert made.owner.run("file put plan.md = The second plan").status == 0
        content.unlink()
        yield made
        assert made.stop() == 0


def test_lost_content_of_an_old_version_is_named_and_left_out(
    server: Server, tmp_path: Path
) -> None:
    version = server.owner.json("file history")["versions"][-1]["id"][-6:]
    use = f"plan.md in lobby, version {version}"
    refused = server.cli("backup", str(tmp_path / "b.tar.gz"))
    assert refused.returncode == 1
    assert f"1 of 2 contents of files is missing or damaged: {use}." in refused.stderr
    assert "--without-damaged" in refused.stderr
    checked = server.cli("doctor", "--json")
    (files,) = (one for one in json.loads(checked.stdout) if one["name"] == "files")
    assert use in files["detail"] and "--without-damaged" in files["remedy"]
    assert [(item["path"], item["version"]) for item in files["items"]] == [("plan.md", version)]
    made = server.cli("backup", str(tmp_path / "b.tar.gz"), "--without-damaged")
    assert made.returncode == 0
    assert f"Warning: 1 content of files is missing or damaged, and not in this backup: {use}" in (
        made.stderr
    )
    words = ["restore", str(tmp_path / "b.tar.gz"), "--data-dir", str(tmp_path / "new")]
    restored = subprocess.run(
        [str(forked_program()), *words], capture_output=True, text=True, check=False
    )
    assert restored.returncode == 0, restored.stderr
    assert f"1 content of files is not in it: {use}. It was missing or damaged" in restored.stdout
