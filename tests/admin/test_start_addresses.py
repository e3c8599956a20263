"""Addresses of a server that are refused before its start makes a world."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from sshwarma.admin.start_addresses import check_addresses
from sshwarma.app import App
from sshwarma.settings import Settings, load_settings
from support.free_ports import find_free_ports

pytestmark = pytest.mark.process


def settings(data: Path, ssh: str, http: str) -> Settings:
    return load_settings(data_dir=data, ssh={"listen": ssh}, http={"listen": http})


@pytest.mark.parametrize(
    ("ssh", "http"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "0.0.0.0")],
)
async def test_two_addresses_of_one_port_are_both_named(
    tmp_path: Path, ssh: str, http: str
) -> None:
    [port] = find_free_ports(1)
    one, other = f"{ssh}:{port}", f"{http}:{port}"
    said = f"ssh.listen ({one}) and http.listen ({other}) have the same port"
    with pytest.raises(OSError, match=re.escape(said)):
        await App.start(settings(tmp_path / "data", one, other))


def test_port_is_shared_by_different_addresses(tmp_path: Path) -> None:
    [port] = find_free_ports(1)
    check_addresses(settings(tmp_path, f"127.0.0.1:{port}", f"127.0.0.2:{port}"))
    check_addresses(settings(tmp_path, "127.0.0.1:0", "127.0.0.1:0"))


@pytest.mark.parametrize("door", ["ssh", "http"])
async def test_start_on_a_taken_port_makes_no_world(tmp_path: Path, door: str) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        listen = {"ssh": "127.0.0.1:0", "http": "127.0.0.1:0"} | {door: address}
        said = re.escape(f"Cannot listen on {address}: another process uses the address.")
        with pytest.raises(OSError, match=said):
            await App.start(settings(data, **listen))
    assert {path.name for path in data.iterdir()} <= {"sshwarma.lock"}


def test_address_that_is_no_name_of_a_host_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"Cannot listen on a\.\.b:1: it is no name of a host"):
        check_addresses(settings(tmp_path, "a..b:1", "off"))
