"""How a worker of a toolset starts: with nothing that it does not need."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pydantic
import pytest

from sshwarma.toolsets.worker_process import list_mounts
from sshwarma.world.resources import resource_dir

WORKER = resource_dir("embedded") / "toolset"


def test_loader_of_plugins_has_the_shape_that_is_replaced() -> None:
    """It is one function without parameters, whose result is gone through."""
    (name,) = re.findall(r'LOADER = "([\w.]+)"', (WORKER / "_pydantic.py").read_text())
    assert not inspect.signature(import_module(name).get_plugins).parameters
    folder = Path(pydantic.__file__).parent
    used = [
        line
        for file in folder.rglob("*.py")
        for line in re.findall(r"(?:from|import) [\w.]*_loader\b.*", file.read_text())
    ]
    assert used == ["from ._loader import get_plugins"]


@pytest.mark.process
def test_worker_reads_no_metadata_of_packages() -> None:
    code = f"import sys; sys.path.insert(0, {str(WORKER)!r}); sys.argv = ['x']; import worker"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pydantic.types" in imported
    assert not imported & {"importlib.metadata", "pydantic.plugin._loader", "docstring_parser"}


def test_nothing_is_compiled_inside() -> None:
    mounts = list_mounts()
    assert {path.stem for path in (mounts["/w"] / "__pycache__").glob("*.pyc")} >= {
        f"{name}.{sys.implementation.cache_tag}"
        for name in ("_pydantic", "sshwarma_toolset", "tool_schema", "worker")
    }
    cached = f"/d/__pycache__/typing_extensions.{sys.implementation.cache_tag}.pyc"
    assert mounts[cached].is_file()
