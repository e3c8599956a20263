"""What the doctor says of addresses, compared with what the system does."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sshwarma.admin import bound_addresses, doctor_ports
from sshwarma.admin.check_result import CheckResult
from sshwarma.settings import load_settings
from sshwarma.web.http import HttpServer
from support.driver import Server

pytestmark = pytest.mark.process

HOSTS = ("127.0.0.1", "127.0.0.2", "0.0.0.0", "", "localhost", "[::1]", "[::]")
PAIRS = [
    *itertools.product(HOSTS, HOSTS),
    *((host, f"[::ffff:{mapped}]") for host in HOSTS for mapped in ("127.0.0.1", "0.0.0.0")),
]


def check(ssh: str, http: str = "off", **used: str) -> list[CheckResult]:
    """Check addresses; `used` is what a running server has."""
    settings = load_settings(ssh={"listen": ssh}, http={"listen": http})
    running = {name.removeprefix("of_"): address for name, address in used.items()}
    return list(doctor_ports.check_ports(settings, running))


def find_failed(ssh: str, http: str = "off", **used: str) -> list[str]:
    return [result.name for result in check(ssh, http, **used) if not result.ok]


@contextlib.contextmanager
def listening(host: str, port: int = 0) -> Iterator[int]:
    """Listen as another program does; give the port."""
    with closing(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ":" in host:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        taken.bind((host, port))
        taken.listen()
        yield int(taken.getsockname()[1])


def find_free_port() -> int:
    """Return a port that nobody has at any address."""
    with closing(socket.create_server(("", 0))) as probe:
        port = int(probe.getsockname()[1])
    with contextlib.suppress(OSError), closing(socket.socket(socket.AF_INET6)) as probe:
        probe.bind(("::", port))
    return port


async def can_serve(ssh: str, http: str) -> bool:
    """Return whether both can be listened on, as a server that starts does it."""
    server = object.__new__(HttpServer)
    host, _, port = http.rpartition(":")
    server.bind(host.strip("[]"), int(port))
    try:
        host, _, port = ssh.rpartition(":")
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(asyncio.Protocol, host.strip("[]"), int(port))
    except OSError as error:
        assert error.errno == errno.EADDRINUSE
        return False
    finally:
        server.unbind()
    listener.close()
    await listener.wait_closed()
    return True


@pytest.mark.parametrize(("ssh", "http"), PAIRS)
async def test_addresses_clash_if_the_system_refuses_the_second(ssh: str, http: str) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    port = find_free_port()
    ssh, http = f"{ssh}:{port}", f"{http}:{port}"
    failed = [] if await can_serve(ssh, http) else ["http port"]
    assert find_failed(ssh, http) == failed
    assert find_failed(ssh, http, of_listen=ssh) == failed, "after a change of the file"
    assert find_failed(ssh, http, of_listen=ssh, of_http=f"127.0.0.1:{port + 1}") == failed


def test_ports_that_the_system_picks_never_clash() -> None:
    assert find_failed("127.0.0.1:0", "127.0.0.1:0") == []
    assert [result.detail for result in check("0.0.0.0:0", of_listen="127.0.0.1:0")] == [
        "0.0.0.0:0 is free"
    ]


@pytest.mark.parametrize(
    ("ssh", "http", "used", "failed"),
    [
        ("192.0.2.1:2222", "off", {"of_listen": "127.0.0.1:2222"}, ["ssh port"]),
        ("127.0.0.1:2222", "off", {"of_listen": "0.0.0.0:2222"}, []),
        ("127.0.0.1:2222", "off", {"of_listen": "127.0.0.1:2222"}, []),
        ("127.0.0.1:2", "127.0.0.1:1", {"of_listen": "127.0.0.1:1", "of_http": "127.0.0.1:2"}, []),
        ("127.0.0.1:2", "127.0.0.1:2", {"of_listen": "127.0.0.1:2"}, ["http port"]),
        ("127.0.0.1:0", "192.0.2.1:0", {}, ["http port"]),
        ("nowhere.invalid:2222", "a..b:80", {}, ["ssh port", "http port"]),
    ],
)
def test_addresses_are_checked_that_a_running_server_does_not_have(
    ssh: str, http: str, used: dict[str, str], failed: list[str]
) -> None:
    assert find_failed(ssh, http, **used) == failed


def test_port_in_use_fails() -> None:
    with listening("127.0.0.1") as port:
        address = f"127.0.0.1:{port}"
        (found,) = check(address)
        assert not found.ok and "ssh.listen in the settings, or serve --listen" in found.remedy
        found = check("127.0.0.1:0", address)[1]
        assert not found.ok and "http.listen in the settings, or serve --http" in found.remedy
    assert find_failed(address) == []


def test_ipv6_address_of_ssh_leaves_ipv4_to_another_program() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    port = find_free_port()
    with listening("127.0.0.1", port):
        assert find_failed(f"[::]:{port}") == []
        assert find_failed("127.0.0.1:0", f"[::]:{port}") == ["http port"]


@pytest.mark.parametrize("host", ["0.0.0.0", "", "127.0.0.3"])
def test_port_of_the_running_server_is_free_for_its_other_addresses(host: str) -> None:
    with listening("127.0.0.1") as port:
        (found,) = check(f"{host}:{port}", of_listen=f"127.0.0.1:{port}")
    assert (found.ok, found.detail) == (
        True, f"{host}:{port}, whose port the running server has",
    )  # fmt: skip


@pytest.mark.parametrize(("host", "other"), [
    ("0.0.0.0", "127.0.0.2"), ("127.0.0.2", "127.0.0.2"), ("", "::1"), ("[::]", "::1"),
])  # fmt: skip
def test_other_program_with_the_port_of_the_running_server_fails(host: str, other: str) -> None:
    """A restart gives up what the server has, and meets the other one."""
    if ":" in other and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    port = find_free_port()
    with listening("127.0.0.1", port), listening(other, port):
        (found,) = check(f"{host}:{port}", of_listen=f"127.0.0.1:{port}")
        where = f"[{other}]:{port}" if ":" in other else f"{other}:{port}"
        assert found.detail == f"{host}:{port}: another process listens on {where}"
        assert not found.ok and found.remedy.startswith("stop the process that uses it, or")
        assert find_failed(f"127.0.0.3:{port}", of_listen=f"127.0.0.1:{port}") == []


def test_sockets_of_a_server_on_all_addresses_are_its_own() -> None:
    port = find_free_port()
    with listening("0.0.0.0", port), contextlib.ExitStack() as stack:
        if socket.has_dualstack_ipv6():
            stack.enter_context(listening("::", port))
        assert find_failed(f"localhost:{port}", of_listen=f":{port}") == []


def test_system_without_a_table_of_sockets_says_nothing_of_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bound_addresses, "SOCKETS", (tmp_path / "none",))
    with listening("127.0.0.1") as port:
        assert find_failed(f"0.0.0.0:{port}", of_listen=f"127.0.0.1:{port}") == []


def test_ssh_on_all_addresses_needs_no_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `serve`, which leaves out what the system has no sockets for."""

    class OnlyIpv4(socket.socket):
        def __init__(self, family: int = socket.AF_INET, *rest: Any, **named: Any) -> None:
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
            super().__init__(family, *rest, **named)

    monkeypatch.setattr(socket, "socket", OnlyIpv4)
    assert find_failed(":0") == []
    assert find_failed("[::1]:0", "[::]:0") == ["ssh port", "http port"]


def test_port_without_the_right_to_it_names_the_right(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(socket.socket):
        def bind(self, address: Any) -> None:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket, "socket", Refusing)
    (found,) = check("127.0.0.1:22")
    assert not found.ok
    assert found.remedy.startswith("ports below 1024 need AmbientCapabilities=")


def test_doctor_says_what_the_restart_of_a_running_server_would_meet(
    serve: Callable[..., Server],
) -> None:
    port = find_free_port()
    server = serve("--listen", f":{port}", "--http", "off")
    file = server.home / "sshwarma.toml"

    def run_doctor(ssh: str, http: str) -> str:
        file.write_text(f'ssh.listen = "{ssh}"\nhttp.listen = "{http}"\n')
        return server.cli("doctor", "--config", str(file)).stdout

    assert " port: " not in run_doctor(f":{port}", "off")
    assert f"ok    ssh port: localhost:{port}, " in run_doctor(f"localhost:{port}", "off")
    assert f"FAIL  http port: 127.0.0.1:{port} cannot" in run_doctor(
        f":{port}", f"127.0.0.1:{port}"
    )


def test_http_port_of_an_older_server_is_not_in_its_own_way() -> None:
    """It says where ssh listens, and not where http does."""
    with listening("127.0.0.1") as ssh, listening("127.0.0.1") as http:
        own = {"of_listen": f"127.0.0.1:{ssh}"}
        assert find_failed(f"127.0.0.1:{ssh}", f"127.0.0.1:{http}", **own) == []
        own["of_http"] = "off"
        assert find_failed(f"127.0.0.1:{ssh}", f"127.0.0.1:{http}", **own) == ["http port"]
