"""What a server tells its service manager, and when it says nothing."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from sshwarma.admin import service_notify, upgrade
from sshwarma.admin.service_notify import ServiceNotifier
from sshwarma.world.errors import Unavailable
from support.service_manager import listening

pytestmark = pytest.mark.process


def test_variables_of_the_service_manager_are_read() -> None:
    notifier = ServiceNotifier.from_environment(
        {"NOTIFY_SOCKET": "@run", "WATCHDOG_USEC": "20000000", "WATCHDOG_PID": str(os.getpid())}
    )
    assert notifier == ServiceNotifier("@run", 20.0)
    for other in ({}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "9", "WATCHDOG_PID": "1"}):
        assert ServiceNotifier.from_environment(other) == ServiceNotifier("", None)


def test_nobody_is_notified_without_a_service_manager() -> None:
    ServiceNotifier().report_ready("Serving.")


def test_service_manager_that_is_gone_does_no_harm(tmp_path: Path) -> None:
    ServiceNotifier(str(tmp_path / "gone")).report_ready("Serving.")


async def test_watchdog_is_notified_only_when_the_check_ends(tmp_path: Path) -> None:
    """Two checks hang, and nothing is sent after them; a refusal ends in time."""
    silent: list[bool] = []
    with listening(tmp_path) as manager:

        async def check() -> None:
            silent.append(not manager.has_message())
            if len(silent) <= 2:
                await asyncio.Event().wait()
            if len(silent) == 3:
                raise Unavailable("The world is too busy.")

        notifier = ServiceNotifier(manager.address, watchdog_seconds=0.04)
        task = asyncio.create_task(notifier.keep_watchdog_quiet(check))
        message = await asyncio.to_thread(manager.read)
        task.cancel()
        await asyncio.wait({task})
    assert message == {"WATCHDOG": "1"}
    assert silent[:3] == [True] * 3


async def test_start_asks_for_more_time_until_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade of a large world takes longer than the unit allows a start."""
    monkeypatch.setattr(service_notify, "EXTENSION_SECONDS", 0.03)
    with listening(tmp_path) as manager:
        task = asyncio.create_task(ServiceNotifier(manager.address).extend_start())
        message = await asyncio.to_thread(manager.read)
        task.cancel()
        await asyncio.wait({task})
    assert message == {"EXTEND_TIMEOUT_USEC": "30000"}


async def test_upgrade_at_a_start_asks_for_more_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    def upgrade_slowly(database: Path) -> None:
        assert asked.wait(30)

    monkeypatch.setattr(service_notify, "EXTENSION_SECONDS", 0.03)
    monkeypatch.setattr(upgrade, "upgrade_database", upgrade_slowly)
    with listening(tmp_path) as manager:
        notifier = ServiceNotifier(manager.address)
        starting = asyncio.create_task(upgrade.upgrade_at_start(tmp_path / "world.db", notifier))
        assert await asyncio.to_thread(manager.read) == {"EXTEND_TIMEOUT_USEC": "30000"}
        asked.set()
        await starting
