"""The check of `sshwarma doctor` whether programs can be run in sandboxes."""

from __future__ import annotations

import asyncio
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sshwarma.admin.check_result import CheckResult, warn
from sshwarma.sandbox.host import SandboxHost
from sshwarma.world.resources import resource_dir


def check_sandbox(data_dir: Path) -> CheckResult:
    """Make a sandbox as the server does, and say whether it holds.

    It is no failure if it cannot be made: everything else works.
    """
    parent = data_dir if data_dir.is_dir() else None

    async def check() -> CheckResult:
        # Not a folder of the server, which may belong to another user.
        with tempfile.TemporaryDirectory(dir=parent) as folder:
            host = SandboxHost(resource_dir("embedded") / "sandbox", data_dir, Path(folder))
            obstacle = await host.check()
        if obstacle is not None:
            return warn("sandbox", f"no command can be run: {obstacle.reason}", obstacle.remedy)
        if os.geteuid() == 0:
            more = "a fault in the kernel would make them root"
            if not host.limits_processes:
                more = f"without control groups, nothing limits their number in time, and {more}"
            return warn(
                "sandbox",
                f"works, but its programs are processes of root, without capabilities: {more}",
                "run the server as another user",
            )
        return CheckResult("sandbox", True, "commands run without network and other files")

    with ThreadPoolExecutor(1) as threads:  # the caller may have an event loop
        return threads.submit(asyncio.run, check()).result()
