"""Downloads that wait for a restart: what their file holds, damaged or not."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from sshwarma.models.model_downloads import WAITING_FILE, ModelDownloads
from support.house import House


@pytest.mark.parametrize("content", ["null", "[1]", '"abc"', "{", "7"])
async def test_damaged_file_does_not_stop_the_start(
    house: House, tmp_path: Path, content: str
) -> None:
    (tmp_path / WAITING_FILE).write_text(content)
    downloads = ModelDownloads(house.world, tmp_path, lambda agent_id: False)
    await downloads.resume()
    await downloads.close()


async def test_file_holds_the_downloads_that_have_not_ended(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    all_ended = asyncio.Event()

    def install(agent_id: str) -> bool:
        ended.append(agent_id)
        if len(ended) == len(wanted):
            all_ended.set()
        return False

    downloads = ModelDownloads(house.world, tmp_path, install)
    seen: list[dict[str, str]] = []

    async def read_file() -> None:
        seen.append(json.loads((tmp_path / WAITING_FILE).read_text()))

    monkeypatch.setattr(downloads._packaged_model, "run", read_file)
    wanted = {f"agent{number}": "lobby" for number in range(20)}
    for agent_id, room_id in wanted.items():
        downloads.begin(agent_id, room_id)
    async with asyncio.timeout(20):
        await all_ended.wait()
    assert len(seen) == 20
    assert seen[0] == wanted
    assert not (tmp_path / WAITING_FILE).exists()
    await downloads.close()
