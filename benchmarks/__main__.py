"""Run every benchmark, one after another: `make bench`."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = (
    "store", "terminal", "lua", "finding", "transport", "sftp", "toolsets", "world", "models",
    "hub", "mcp_server", "memory", "compaction", "events", "hooks", "triggers",
)  # fmt: skip

for name in BENCHMARKS:
    print(f"\n== {name}", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
