"""Commands collect no garbage, and those that go on do."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest

from sshwarma.cli import server_process
from sshwarma.settings import Settings, SettingsSource


async def test_server_collects_garbage_although_commands_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    was_on: list[bool] = []

    async def stop() -> None:
        was_on.append(gc.isenabled())

    async def start(*arguments: object) -> Any:
        store = SimpleNamespace(lost=asyncio.Event())
        drain, world = SimpleNamespace(over=asyncio.Event()), SimpleNamespace(store=store)
        return SimpleNamespace(stop=stop, drain=drain, world=world)

    stopping = asyncio.Event()
    stopping.set()
    signals = SimpleNamespace(stop=stopping, reload=asyncio.Event(), reason="a test")
    monkeypatch.setattr(server_process, "ServerSignals", lambda: signals)
    monkeypatch.setattr(server_process, "_start_unless_stopped", start)
    monkeypatch.setattr(server_process, "discover_models", lambda environ: asyncio.sleep(0, []))
    monkeypatch.setattr(server_process, "say_welcome", lambda app, offers: None)
    monkeypatch.setattr(server_process, "_ready_line", lambda app, *, as_json: "ready")
    gc.disable()
    try:
        await server_process._serve_until_signal(Settings(), SettingsSource(), as_json=False)
    finally:
        gc.enable()
    assert was_on == [True]
