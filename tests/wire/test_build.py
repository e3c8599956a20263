"""Worlds that are built from folders, over ssh and on the machine of the server."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from support.driver import Person, Server
from support.driver.covers import covers
from support.waiting import wait_until

WORLDS = Path(__file__).parents[2] / "examples" / "worlds"


def tar(folder: Path) -> bytes:
    """What `tar c FOLDER` writes."""
    return subprocess.run(
        ["tar", "c", folder.name], cwd=folder.parent, capture_output=True, check=True
    ).stdout


@pytest.mark.process
@covers("build", "export folder")
def test_the_worlds_of_the_examples_are_built_once(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    server = serve(limits__lines_per_10_seconds=1_000_000)
    owner = server.owner
    for name, rooms in (
        ("office", "library, office, standup"),
        ("incident", "incident"),
        ("game", "cave, garden, gate"),
    ):
        data = tar(WORLDS / name)
        planned = owner.run("build", data)
        assert planned.status == 0 and "With --apply they are done." in planned.out, planned
        applied = owner.run("build --apply", data)
        assert applied.out.splitlines()[-1].startswith("Done: "), applied
        again = owner.run("build --apply", data)
        assert again.out == f"Nothing to change in {rooms}.\n"
        server.kill()
        server.start()
        assert owner.run("build", data).out == again.out, "a kill loses nothing of it"
        for room in rooms.split(", "):
            exported = owner.run(f"export folder {room}").raw
            with tarfile.open(fileobj=io.BytesIO(exported)) as archive:
                archive.extractall(tmp_path / name, filter="data")
        assert owner.run("build", tar(tmp_path / name)).out == again.out


@pytest.mark.process
def test_the_worlds_of_the_examples_work(serve: Callable[..., Server]) -> None:
    server = serve(limits__lines_per_10_seconds=1_000_000)
    owner = server.owner
    bob = server.person("bob")
    for name in ("office", "incident", "game"):
        owner.run("build --apply", tar(WORLDS / name))

    def said(room: str) -> list[str]:
        entries = owner.json(f"history 50 --room {room}")["entries"]
        return [one["text"] for one in entries if one["kind"] == "chat"]

    assert bob.json("run office:who-reviews team=ann,bob --room office")["text"] == "ann reviews."
    assert bob.json("run office:who-reviews team=ann,bob --room office")["text"] == "bob reviews."
    owner.run("run incident:oncall to=ann --room incident")
    assert bob.json("run incident:oncall --room incident")["text"] == "ann is on call."
    bob.run('run incident:timeline text="the queue is full" --room incident')
    bob.run('run incident:timeline text="it is empty again" --room incident')
    lines = bob.json("run incident:timeline --room incident")["text"].splitlines()
    assert [line.partition(": ")[2] for line in lines] == ["the queue is full", "it is empty again"]
    bob.run("run incident:timeline text=1 nosuch=2 --room incident")
    owner.run("tool new incident:bad --room incident", "error('no luck')")
    bob.run("run incident:bad --room incident")
    wait_until(lambda: any("incident:bad failed" in text for text in said("incident")))
    bob.run("run incident:close summary=done --room incident")
    owner.does("run incident:close summary=done --room incident")
    wait_until(lambda: is_closed(owner))
    owner.does("milestone --room incident Opened again: it is back")
    wait_until(lambda: not is_closed(owner))
    assert re.fullmatch(r"bob rolls \d+ of 20\.", bob.json("run luck sides=20 --room gate")["text"])
    for person, points in ((bob, 10), (owner, 10), (bob, 20)):
        found = f"the cup of gold: {points} points"
        wait_until(lambda p=person, f=found: f in p.json("run luck --room cave")["text"])
    assert "Let others search" in bob.json("run luck --room cave")["text"]
    slate = bob.json("run luck --room garden")["text"].splitlines()
    assert slate == sorted(["bob: 20", f"{owner.name}: 10"])


def is_closed(owner: Person) -> bool:
    """Whether the trigger of the incident keeps that it was closed."""
    kept = owner.json("tool state trigger:alarm --room incident")["stores"]
    return any(store["values"].get("closed") for store in kept)


@pytest.mark.process
def test_the_command_builds_with_the_running_server(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    server = serve()
    folder = tmp_path / "shed"
    folder.mkdir()
    (folder / "room.toml").write_text('vibe = "dusty"\n')
    command = ["build", str(folder)]
    checked = server.cli(*command, "--check")
    assert (checked.returncode, "1 change" in checked.stdout or "2 changes" in checked.stdout) == (
        1, True,
    )  # fmt: skip
    assert server.cli(*command, "--apply").returncode == 0
    assert server.cli(*command, "--check").returncode == 0
    assert server.owner.json("look --room shed")["vibe"] == "dusty"
    (folder / "things").mkdir()
    (folder / "things" / "x").symlink_to("/etc/passwd")
    refused = server.cli(*command)
    assert refused.returncode == 2 and "shed/things/x: neither a file nor" in refused.stderr
