"""Run every benchmark, one after another: `make bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

BENCHMARKS = (
    "store", "terminal", "lua", "finding", "transport", "world", "models", "hub", "mcp_server",
)  # fmt: skip

for name in BENCHMARKS:
    print(f"\n== {name}", flush=True)
    subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=True)
