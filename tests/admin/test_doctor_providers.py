"""What the doctor finds of models and MCP servers without a connection."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sshwarma.admin.check_result import CheckResult, Reason
from sshwarma.admin.doctor_providers import check_mcp_servers, check_models
from sshwarma.common.user_names import name_user
from sshwarma.models import local_files, providers
from sshwarma.settings import load_settings


def check_server(data_dir: Path = Path("/nosuch"), **server: Any) -> CheckResult:
    settings = load_settings(data_dir=data_dir, mcp=[{"name": "files", **server}])
    [found] = check_mcp_servers(settings, {})
    return found


@pytest.mark.parametrize("kind", ["local", "google"])
def test_missing_package_of_a_kind_of_models_fails(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (local_files, providers):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    model = {"name": "m1", "kind": kind, "model": "packaged" if kind == "local" else "gemini"}
    if kind == "google":
        model["key_env"] = "A_KEY"
    [found] = check_models(load_settings(models=[model]), {"A_KEY": "k"})
    assert not found.ok
    assert f"pip install 'sshwarma[{kind}]'" in found.detail


@pytest.mark.parametrize(
    ("key", "reason"),
    [({"key_env": "A_KEY"}, Reason.MISSING_VARIABLE), ({"key_file": "/nosuch/key"}, None)],
)
def test_only_a_missing_variable_may_be_there_for_the_server(
    key: dict[str, str], reason: Reason | None
) -> None:
    model = {"name": "m1", "kind": "anthropic", "model": "claude-sonnet-4-5", **key}
    [found] = check_models(load_settings(models=[model]), {})
    assert (found.ok, found.reason) == (False, reason)


@pytest.mark.parametrize(
    ("url", "detail"),
    [
        ("http://127.0.0.1:9/mcp", "127.0.0.1 is on this machine or in a private network"),
        ("http://localhost:9/mcp", "localhost is on this machine or in a private network"),
        ("http://169.254.169.254/mcp", "169.254.169.254 is not allowed for servers"),
        ("https://mcp.example.org/mcp", ""),
    ],
)
def test_address_of_an_mcp_server_that_is_never_connected_to_fails(url: str, detail: str) -> None:
    found = check_server(url=url)
    assert (found.ok, found.detail) == (not detail, detail or url)
    if "private" in detail:
        assert found.remedy == "set allow_private = true"
        assert check_server(url=url, allow_private=True).ok


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory whose programs are found, all of the names that the tests use."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("python3", "node", "bash", "ruby", "docker", "ssh", "env", "files"):
        (folder / name).touch(mode=0o755)
    monkeypatch.setattr(os, "defpath", str(folder))
    return folder


def test_script_that_does_not_exist_is_a_warning(tmp_path: Path, programs: Path) -> None:
    """The program may also make it, so that it is no failure."""
    script = tmp_path / "server.py"
    command = ["python3", "-u", str(script), "/"]
    found = check_server(command=command)
    assert (found.ok, found.is_warning) == (True, True)
    assert found.detail == f"python3, whose argument {script} does not exist"
    script.touch()
    assert check_server(command=command).detail == "python3"


def test_script_is_looked_for_in_the_directory_of_the_program(
    tmp_path: Path, programs: Path
) -> None:
    command = [str(programs / "python3"), "server.py"]
    own = tmp_path / "data" / "mcp" / "files"
    for folder, where in ((tmp_path, {"cwd": tmp_path}), (own, {})):
        found = check_server(command=command, data_dir=tmp_path / "data", **where)
        assert found.is_warning
        assert found.detail == f"{command[0]}, whose argument server.py does not exist in {folder}"
        assert found.remedy.startswith("set cwd to the directory that it is in, or")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "server.py").touch()
        found = check_server(command=command, data_dir=tmp_path / "data", **where)
        assert (found.mark, found.detail) == ("ok", command[0])


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (["python3"], ""),
        (["python3", "gone.py", "/nope"], "gone.py"),
        (["python3", "~/gone.py"], "~/gone.py"),
        (["python3", "--script=/nope/x"], "/nope/x"),
        (["python3", "-X", "dev", "/nope/server.py"], "/nope/server.py"),
        (["python3", "-m", "gone", "/nope"], "/nope"),
        (["python3", "-m", "gone", "file.txt"], ""),
        (["python3", "-c", "/ 2"], ""),
        (["python3", "-", "file.txt"], ""),
        (["python3", "/"], ""),
        (["python3", "/" + "a" * 300], ""),  # the system refuses to look
        (["node", "gone"], ""),  # may be gone.js
        (["node", "--no-warnings", "gone.js"], "gone.js"),
        (["bash", "-eu", "gone"], "gone"),
        (["bash", "-lc", "/nope/program --flag"], ""),
        (["ruby", "-w", "gone.rb"], "gone.rb"),
        (["files", "gone.py"], ""),
        (["files", "--root", "/nope"], "/nope"),
        (["files", "/dev/null/nope"], "/dev/null/nope"),
        (["files", "--url=//example.org/x", "//example.org/x", "--root=/"], ""),
        (["env", "ROOT=/nope", "files"], ""),
        (["docker", "run", "-i", "image", "python3", "/app/server.py"], ""),
        (["env", "A=b", "docker", "run", "image", "/app/server.py"], ""),
        (["ssh", "there", "/app/server.py"], ""),
    ],
)
def test_files_are_looked_for_as_far_as_they_are_known(
    command: list[str], missing: str, tmp_path: Path, programs: Path
) -> None:
    found = check_server(command=command, cwd=tmp_path)
    assert found.ok
    assert (found.mark, found.detail.partition(", whose argument ")[2].partition(" does ")[0]) == (
        "warn" if missing else "ok", missing,
    )  # fmt: skip


@pytest.mark.parametrize(("text", "mode", "owner", "detail", "remedy"), [
    ("key", 0o600, None, "m", ""),
    ("key", 0o644, None, "other users can access the file", "chmod 600 "),
    ("", 0o600, None, "no key in the file", "write the key to "),
    ("two words", 0o600, None, "does not hold a key", "write the key to "),
    ("key", 0o600, 12345, "belongs to OWNER, who can change it", "chown "),
])  # fmt: skip
def test_key_files_of_models_are_opened(
    tmp_path: Path, text: str, mode: int, owner: int | None, detail: str,
    remedy: str, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    file = tmp_path / "key"
    file.write_text(text)
    file.chmod(mode)
    if owner is not None and os.geteuid() == 0:
        os.chown(file, owner, -1)
    elif owner is not None:  # as it looks to another user
        us = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    chosen = load_settings(
        models=[{"name": "m1", "kind": "openai", "model": "m", "key_file": str(file)}]
    )
    (result,) = check_models(chosen, {})
    assert detail.replace("OWNER", name_user(file.stat().st_uid)) in result.detail
    assert result.remedy.removeprefix("as root: ").startswith(remedy)
    assert result.ok == (not remedy)
