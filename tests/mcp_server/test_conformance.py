"""The official conformance suite on the real endpoint, with its own fixtures."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.node import conformance

TESTS = Path(__file__).parent.parent
SCORED = {"2025-11-25": 30, "2026-07-28": 37}
"""Scenarios that the suite requires of a server for each revision of the protocol."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    errors = tmp_path_factory.mktemp("conformance") / "errors"
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    with (
        errors.open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "support.programs.everything"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "PYTHONPATH": path},
        ) as process,
    ):
        assert process.stdout is not None
        said = process.stdout.readline().decode().strip()
        assert said.startswith("http"), errors.read_text()
        yield said
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0, errors.read_text()
    assert "Traceback" not in errors.read_text()


@pytest.mark.parametrize(
    "revision", [pytest.param("2025-11-25", marks=pytest.mark.soak), "2026-07-28"]
)
def test_every_scored_conformance_scenario_passes(url: str, revision: str, tmp_path: Path) -> None:
    done = conformance("server", "--url", url, "--requirements", revision, "-o", str(tmp_path))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    _, _, summary = done.stdout.partition("=== SUMMARY ===")
    scored, _, others = summary.partition("Not scored for")
    unscored = {line.split()[1] for line in others.splitlines() if line.startswith("  ")}
    passed = {
        name.rstrip(":")
        for mark, name, *_ in (line.split() for line in scored.splitlines() if ":" in line)
        if mark == "✓"
    }
    assert len(passed - unscored) == SCORED[revision], scored
