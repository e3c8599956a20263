"""The start of a sandbox."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sshwarma.sandbox.host import SandboxHost
from support.sandboxes import needs_bubblewrap, run

pytestmark = [pytest.mark.process, needs_bubblewrap]


async def test_sandbox_starts_while_all_threads_of_the_server_are_busy(host: SandboxHost) -> None:
    may_end = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        asyncio.get_running_loop().set_default_executor(threads)
        threads.submit(may_end.wait, 15)
        try:
            printed = await run(host, None, "echo started")
        finally:
            may_end.set()
    assert printed == "started\n"
