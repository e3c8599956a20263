"""Keys of providers: where they are read, and that nothing prints them."""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from sshwarma.models.backend import BackendError, StepRequest
from sshwarma.models.pydantic_ai_backend import PydanticAIBackend
from sshwarma.models.secrets import Secret, describe_key_location, read_key
from sshwarma.settings import ModelSettings

KEY = "sk-a-key-that-nobody-may-see-0123456789"


def settings(**more: Any) -> ModelSettings:
    return ModelSettings(**{"name": "qwen", "kind": "openai", "model": "gpt-4o"} | more)


def private(tmp_path: Path, text: str = f"{KEY}\n", mode: int = 0o600) -> Path:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_key_is_read_from_a_variable_or_a_private_file(tmp_path: Path) -> None:
    assert read_key(settings(), {"OPENAI_API_KEY": KEY}).reveal() == KEY
    assert read_key(settings(key_env="MINE"), {"MINE": f" {KEY}\n"}).reveal() == KEY
    assert read_key(settings(key_file=private(tmp_path)), {}).reveal() == KEY


@pytest.mark.parametrize("kind", ["ollama", "llamacpp", "compatible"])
def test_local_server_gets_no_key_by_default(kind: str) -> None:
    local = settings(kind=kind, base_url="http://127.0.0.1:1/v1")
    assert read_key(local, {"OPENAI_API_KEY": KEY}).reveal() == ""


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_key_file_readable_by_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = private(tmp_path, mode=mode)
    with pytest.raises(BackendError, match=f"chmod 600 {path}") as raised:
        read_key(settings(key_file=path), {})
    assert KEY not in repr(raised.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no key in the environment variable OPENAI_API_KEY"),
        ({"key_env": "MINE"}, "no key in the environment variable MINE"),
        ({"key_file": "/nowhere/key"}, "cannot read the file /nowhere/key: No such file"),
        ({"key_file": "/"}, "it is not a file"),
    ],
)
def test_missing_key_names_where_it_was_expected(given: Any, said: str) -> None:
    with pytest.raises(BackendError, match=said):
        read_key(settings(**given), {})


def test_pipe_as_key_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(BackendError, match="not a file"):
        read_key(settings(key_file=tmp_path / "pipe"), {})


@pytest.mark.parametrize("text", [f"export A={KEY} B", f"{KEY}\n{KEY}", f"{KEY}é", f"{KEY}\0"])
def test_invalid_key_is_refused_without_printing_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(BackendError, match="does not hold a key") as raised:
        read_key(settings(key_file=private(tmp_path, text)), {})
    assert KEY not in repr(raised.value)


def test_secret_is_never_printed_copied_or_pickled() -> None:
    key = Secret(KEY)
    shown = [repr(key), str(key), f"{key}", f"{key!r:>50}", f"{[key]}", repr({"k": key})]
    assert not any(KEY in text for text in shown)
    assert key.hide(f"a {KEY} b") == "a ••• b"
    for store in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            store(key)


@pytest.mark.process
async def test_key_is_not_in_repr_or_log(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    free = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{free.sockets[0].getsockname()[1]}/v1"
    backend = PydanticAIBackend(settings(base_url=url), {"OPENAI_API_KEY": KEY})
    loaded = await backend.ready()
    assert loaded.key.reveal() == KEY
    with pytest.raises(BackendError) as raised:
        async for _ in backend.stream(StepRequest("lobby", "alice", "hello", ())):
            pass
    free.close()
    await backend.close()
    out, err = capfd.readouterr()
    shown = [repr(backend), repr(vars(backend)), repr(loaded), repr(loaded.model), out, err]
    shown += [repr(raised.value), repr(raised.value.__context__), caplog.text]
    assert not any(KEY in text for text in shown)
    assert describe_key_location(settings()) in "the environment variable OPENAI_API_KEY"
