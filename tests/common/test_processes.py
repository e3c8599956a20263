"""Child processes end when ended, whatever they wrote and whatever they started."""

from __future__ import annotations

import asyncio
import errno
import os

import pytest

from sshwarma.common._asyncio_subprocess import has_process_descriptors
from sshwarma.common.processes import end_process, start_isolated
from support.waiting import until

pytestmark = pytest.mark.process

ENDLESS = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
CHILD_KEEPS_THE_PIPE = """
import os, time
if os.fork():
    print("ready", flush=True)
time.sleep(99)
"""


async def test_process_with_more_output_than_is_read_can_be_ended() -> None:
    process = await start_isolated("-c", ENDLESS)
    assert process.stdout is not None
    await until(lambda: vars(process.stdout)["_paused"])
    async with asyncio.timeout(20):
        await end_process(process, process.stdout, process.stderr)
    assert process.returncode == -9


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
async def test_program_starts_where_processes_have_no_descriptors(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(pid: int) -> int:
        raise OSError(number, os.strerror(number))

    has_process_descriptors.cache_clear()
    monkeypatch.setattr(os, "pidfd_open", fail)
    try:
        process = await start_isolated("-c", "print('here')")
    finally:
        has_process_descriptors.cache_clear()
    assert await process.communicate() == (b"here\n", b"")


async def test_process_ends_with_the_children_that_hold_its_pipes() -> None:
    process = await start_isolated("-c", CHILD_KEEPS_THE_PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    async with asyncio.timeout(20):
        await end_process(process, process.stdout, process.stderr)
    assert process.returncode == -9
