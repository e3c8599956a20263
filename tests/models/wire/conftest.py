"""One mock of every provider for the session, and backends that ask it."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from mocked import KEYS, NODE, WIRES, Ask, Mock, Wire, installed, scripts

from sshwarma.models import faults
from sshwarma.models.backends import ModelBackend
from sshwarma.settings import ModelSettings


@pytest.fixture(scope="session")
def mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mock]:
    program = installed()
    fixtures = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    fixtures.write_text(json.dumps({"fixtures": [s for wire in WIRES for s in scripts(wire)]}))
    process = subprocess.Popen(
        [
            str(NODE),
            str(program),
            "-p",
            "0",
            "-f",
            str(fixtures),
            "--strict",
            "--log-level",
            "info",
        ],
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
        while "listening on " not in (line := lines.get(timeout=20)):
            said.append(line)
            assert line, f"the mock did not start: {''.join(said)}"
        yield Mock(line.split("listening on ")[1].strip())
    finally:
        process.terminate()
        process.wait(10)
        reader.join(10)
        process.stdout.close()


@pytest.fixture(params=WIRES, ids=str)
def wire(request: pytest.FixtureRequest) -> Wire:
    return request.param


@pytest.fixture
async def backend(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ask]:
    """Makes a backend of a wire at an address; closes it in the end. Backoff is short."""
    monkeypatch.setattr(faults, "FIRST_WAIT", 0.001)
    made: list[ModelBackend] = []

    def make(wire: Wire, url: str, **more: Any) -> ModelBackend:
        settings = ModelSettings(
            name="qwen", kind=wire.kind, model=wire.model, base_url=url + wire.root, **more
        )
        made.append(ModelBackend(settings, KEYS))
        return made[-1]

    yield make
    for one in made:
        await one.close()
