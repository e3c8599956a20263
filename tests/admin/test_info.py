"""What `sshwarma info` counts and measures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sshwarma.admin.operations import run_operation
from sshwarma.cli.main import main
from sshwarma.settings import load_settings
from sshwarma.world.world import World
from support.people import Someone, do


async def test_info_counts_what_people_make(world: World, alice: Someone) -> None:
    before = await run_operation(world, "info", {})
    await do(alice, "/create studio")
    await do(alice, "/put paper = text")
    await do(alice, "hello")
    after = await run_operation(world, "info", {})
    assert after["rooms"] == before["rooms"] + 1
    assert after["things"] >= before["things"] + 2
    assert after["rows"] > before["rows"]
    assert after["audit_rows"] > before["audit_rows"]
    assert sum(after["agents"].values()) == len(list(world.agents))


async def test_info_measures_the_files_of_the_data_directory(world: World, tmp_path: Path) -> None:
    data_dir = tmp_path / "elsewhere"
    for name, size in (
        *(("world.db", 5000), ("world.db-wal", 300), ("world-before-0011.db", 70)),
        *(("world-replaced-2026.db", 7), ("backups/world-a.tar.gz", 11), ("models/a/b.gguf", 13)),
    ):
        file = data_dir / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(size))
    facts = await run_operation(world, "info", {}, settings=load_settings(data_dir=data_dir))
    sizes = facts["bytes"]
    assert (sizes["database"], sizes["log"], sizes["copies"]) == (5000, 300, 77)
    assert (sizes["backups"], sizes["models"], sizes["mcp"]) == (11, 13, 0)
    assert sizes["disk_free"] > 0 and facts["data_dir"] == str(data_dir)


def test_info_of_a_stopped_world_is_printed(
    newborn: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "place"
    place.mkdir(mode=0o700)
    shutil.copy(newborn, place / "world.db")
    assert main(["info", "--data-dir", str(place), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["bytes"]["database"] == (place / "world.db").stat().st_size
    assert main(["info", "--data-dir", str(place)]) == 0
    shown = capsys.readouterr().out
    assert f"rooms              {facts['rooms']}\n" in shown
    assert " MiB  database\n" in shown and " MiB  free on the disk\n" in shown
