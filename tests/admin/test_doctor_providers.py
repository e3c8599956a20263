"""What the doctor finds of models and MCP servers without a connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sshwarma.admin.check_result import CheckResult
from sshwarma.admin.doctor_providers import check_mcp_servers, check_models
from sshwarma.models import local_files, providers
from sshwarma.settings import load_settings


def check_server(**server: Any) -> CheckResult:
    [found] = check_mcp_servers(load_settings(mcp=[{"name": "files", **server}]), {})
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


def test_script_that_does_not_exist_is_a_warning(tmp_path: Path) -> None:
    """The program may also make it, so that it is no failure."""
    script = tmp_path / "server.py"
    command = ["python3", "-u", str(script), "/"]
    found = check_server(command=command)
    assert (found.ok, found.is_warning) == (True, True)
    assert found.detail == f"python3, whose argument {script} does not exist"
    script.touch()
    assert check_server(command=command).detail == "python3"
