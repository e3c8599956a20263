"""The order in which the doors open."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from sshwarma.app import App
from sshwarma.mcp.client.oauth_sign_in import OAuthSignIns
from sshwarma.settings import load_settings
from sshwarma.web.oauth_callback import oauth_callback_routes


@pytest.mark.process
async def test_sign_ins_have_their_address_before_ssh_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[OAuthSignIns] = []
    redirects: list[str] = []

    def keep_sign_ins(sign_ins: OAuthSignIns) -> dict[str, Any]:
        made.append(sign_ins)
        return oauth_callback_routes(sign_ins)

    async def refuse_to_listen(*args: Any, **values: Any) -> None:
        redirects.append(made[0].client_metadata.redirect)
        raise OSError("ssh cannot listen")

    monkeypatch.setattr("sshwarma.app.oauth_callback_routes", keep_sign_ins)
    monkeypatch.setattr("sshwarma.app.start_ssh_server", refuse_to_listen)
    address = {"listen": "127.0.0.1:0"}
    with pytest.raises(OSError, match="ssh cannot listen"):
        await App.start(load_settings(data_dir=tmp_path, ssh=address, http=address))
    port = urlsplit(redirects[0]).port
    assert port
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))  # the address was given back


@pytest.mark.process
async def test_start_warns_of_a_new_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is right only once: a service with level = "warning" must tell it."""

    async def refuse(*args: Any) -> None:
        raise OSError("not opened")

    monkeypatch.setattr("sshwarma.app.open_world", refuse)
    with capture_logs() as logs, pytest.raises(OSError, match="not opened"):
        await App.start(load_settings(data_dir=tmp_path))
    [made] = [entry for entry in logs if entry["event"] == "new world"]
    assert made["log_level"] == "warning" and made["data_dir"] == str(tmp_path)
