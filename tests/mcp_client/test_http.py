"""Servers over HTTP: where a URL may lead, what may return, and reconnection."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from sshwarma.mcp.client.address import BlockedAddress, check_url, refusal_reason, resolve_allowed
from sshwarma.mcp.client.sdk.http import CheckedNetworkBackend
from sshwarma.world.errors import Invalid, Unavailable
from support.driver.installed import NODE, PROGRAMS, from_npm
from support.handmade_mcp_server import Web
from support.http_server import serving
from support.hub import QUICK, Hubbed
from support.people import do, refused

MODERN = str(PROGRAMS / "modern.py")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.9.1", "10.0.0.1", "172.16.3.4", "192.168.1.1", "100.64.0.1",
        "198.18.0.1", "192.0.0.8", "240.0.0.1", "255.255.255.255", "::1", "fc00::1", "fd12::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "2002:7f00:1::", "2002:a00:1::1",
        "64:ff9b::7f00:1", "64:ff9b:1::a00:1", "2001:db8::1", "::ffff:0:127.0.0.1", "2001::7f00:1",
        "192.88.99.1", "fec0::1", "3fff::1", "5f00::1",
    ],
)  # fmt: skip
def test_private_addresses_are_refused_in_every_notation(address: str) -> None:
    assert refusal_reason(address, allow_private=False)


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "fe80::1", "fe80::1%eth0", "0.0.0.0", "::", "224.0.0.1", "ff02::1",
     "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "no address"],
)  # fmt: skip
def test_some_addresses_are_refused_even_with_allow_private(address: str) -> None:
    assert refusal_reason(address, allow_private=True)


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert refusal_reason(address, allow_private=False) == ""


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.1", "fd12::1", "::ffff:127.0.0.1"])
def test_private_addresses_are_allowed_with_allow_private(address: str) -> None:
    assert refusal_reason(address, allow_private=True) == ""


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0", "[::1]",
     "[::ffff:127.0.0.1]", "127.0.0.1."],
)  # fmt: skip
async def test_loopback_is_refused_in_every_notation(host: str) -> None:
    with pytest.raises((BlockedAddress, OSError)):
        await resolve_allowed(host, 80, allow_private=False)


async def test_host_with_one_blocked_address_is_refused() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["1.1.1.1", "10.0.0.1"]

    with pytest.raises(
        BlockedAddress, match=r"^two\.example resolves to a blocked address: 10\.0\.0\.1 is on this"
    ):
        await resolve_allowed("two.example", 80, allow_private=False, resolve=resolve)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://example.org/", "is not the URL of a server"),
        ("file:///etc/passwd", "is not the URL of a server"),
        ("http://", "is not the URL of a server"),
        ("http://user:pass@example.org/", "user name or password"),
        ("http://@example.org/", "user name or password"),
        ("http://example.org:99999/", "Invalid URL"),
        ("http://[::1/", "Invalid URL"),
        ("example.org", "is not the URL of a server"),
        ("javascript:alert(1)", "is not the URL of a server"),
    ],
)
def test_invalid_url_is_refused(url: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        check_url(url)


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web()
    with serving(server):
        yield server


async def test_http_server_gets_its_headers_and_answers_calls(
    hubbed: Hubbed, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_TEST_TOKEN", "s3cret")
    headers = {"Authorization": "Bearer ${HUB_TEST_TOKEN}"}
    await hubbed.add("web", url=f"{web.url}/mcp", allow_private=True, headers=headers)
    assert (await hubbed.call("web:echo")).text == "hello"
    assert {seen[2]["Authorization"] for seen in web.seen} == {"Bearer s3cret"}
    assert {seen[2]["Accept-Encoding"] for seen in web.seen} == {"identity"}
    assert "s3cret" not in repr(await hubbed.server("web"))


@pytest.mark.parametrize("timing", [replace(QUICK, probe=0.02)])
async def test_server_without_ping_stays_connected(hubbed: Hubbed, web: Web) -> None:
    server = await hubbed.add("web", url=f"{web.url}/no-ping", allow_private=True)
    await hubbed.until(lambda: web.pings > QUICK.max_failed_probes)
    assert (await hubbed.call("web:echo")).text == "hello"
    assert "probe" not in "\n".join(map(str, hubbed.hub.log_of(server)))


async def test_server_of_a_toolset_is_named_no_flag_that_an_import_lacks() -> None:
    backend = CheckedNetworkBackend(allow_private=False, of_toolset=True)
    with pytest.raises(BlockedAddress) as refused:
        await backend.connect_tcp("127.0.0.1", 9)
    assert "--allow-private" not in str(refused.value)
    assert "an owner can add it as a server of its own" in str(refused.value)


async def test_loopback_server_needs_allow_private(hubbed: Hubbed, web: Web) -> None:
    await hubbed.add("web", url=f"{web.url}/mcp", wait=False)
    condition = await hubbed.hub.wait_until_settled("web", 30)
    assert condition.state == "down"
    assert condition.reason == (
        "127.0.0.1 is on this machine or in a private network. Allow it with --allow-private"
    )
    assert web.seen == []


async def test_renamed_httpx_pool_blocks_all_connections(
    hubbed: Hubbed, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VULNERABILITY: with its pool renamed, httpx2 reaches private addresses (SSRF)."""
    stock = httpx2.AsyncHTTPTransport.__init__

    def renamed(self: Any, *given: Any, **named: Any) -> None:
        stock(self, *given, **named)
        self._connections = self.__dict__.pop("_pool")

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "__init__", renamed)
    await hubbed.add("web", url=f"{web.url}/mcp", allow_private=True, wait=False)
    condition = await hubbed.hub.wait_until_settled("web", 30)
    assert condition.state == "down"
    assert condition.reason == "this httpx2 version has no replaceable connection pool"
    assert web.seen == []


@pytest.mark.parametrize(
    ("path", "state", "why"),
    [
        ("/bad-gateway", "down", "it responded with HTTP 502; check the path of the URL"),
        ("/locked", "needs-sign-in", "it requires a sign-in"),
        ("/away", "down", "Redirect to http://localhost:9/mcp not followed"),
        ("/zipped", "down", "its response is compressed, but no compression was requested"),
    ],
)
async def test_connection_error_is_reported(
    hubbed: Hubbed, web: Web, path: str, state: str, why: str
) -> None:
    await hubbed.add("web", url=web.url + path, allow_private=True, wait=False)
    condition = await hubbed.hub.wait_until_settled("web", 30)
    assert condition.state == state
    assert why in condition.reason


async def test_rejected_api_key_does_not_start_a_sign_in(
    hubbed: Hubbed, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_TEST_TOKEN", "s3cret")
    headers = {"authorization": "Bearer ${HUB_TEST_TOKEN}"}
    url = f"{web.url}/locked"
    await hubbed.add("web", url=url, allow_private=True, headers=headers, wait=False)
    condition = await hubbed.hub.wait_until_settled("web", 10)
    assert condition.state == "needs-key"
    assert condition.reason == "it refused the connection (HTTP 401)"


async def test_response_over_the_limit_fails_only_its_call(hubbed: Hubbed, web: Web) -> None:
    await hubbed.add("web", url=f"{web.url}/huge", allow_private=True)
    outcome = await hubbed.call("web:echo")
    assert outcome.ending == "error"
    assert "The response is too large (limit 4 MiB)." in outcome.text
    assert hubbed.state("web") == "up"


@pytest.mark.parametrize("path", ["deep", "deep-events", "deep-sse"])
async def test_tool_that_is_too_deep_is_left_out_alone(hubbed: Hubbed, web: Web, path: str) -> None:
    url = f"{web.url}/{path}"
    await hubbed.add("web", url=url, allow_private=True, sse=path == "deep-sse")
    shown = await do(hubbed.owner, "/mcp show web")
    assert dict(shown.refused) == {"pit": "its input schema has over 32 levels"}
    text = (await hubbed.call("web:echo")).text
    assert text == "A message of the server is too deep (limit 150)."


async def test_truncated_response_fails_only_its_call(hubbed: Hubbed, web: Web) -> None:
    await hubbed.add("web", url=f"{web.url}/cut", allow_private=True)
    outcome = await hubbed.call("web:echo")
    assert outcome.ending == "error"
    assert outcome.text.startswith("web did not respond: SSE stream ended without a response")
    assert hubbed.state("web") == "up"


def free_port() -> int:
    """A port nobody listens at, below those that the kernel gives out by itself.

    Otherwise another program may have it before its server does, and who knocks while nobody
    listens may meet themselves.
    """
    for port in random.sample(range(15_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("there is no free port")


@contextlib.contextmanager
def running(*words: str, port: int, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server in a process of its own, from when it listens."""
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, **env}, start_new_session=True,
    )  # fmt: skip
    try:
        for _ in range(2_000):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.01)
        yield process
    finally:
        process.kill()
        process.wait()


async def test_server_of_the_newer_protocol_answers_calls(hubbed: Hubbed) -> None:
    port = free_port()
    with running(sys.executable, MODERN, str(port), port=port):
        await hubbed.add("modern", url=f"http://127.0.0.1:{port}/mcp", allow_private=True)
        assert (await hubbed.server("modern")).metadata["version"] == "2026-07-28"
        assert (await hubbed.call("modern:echo", text="hi")).text == "hi"
        received: list[str] = []
        caller = replace(hubbed.owner.caller, door="mcp", on_progress=received.append)
        await hubbed.tools.call(caller, "modern:steps", {})
        assert received == ["1/3 step 1", "2/3 step 2", "3/3 step 3"]
        await hubbed.call("modern:grow")

        async def grown() -> bool:
            shown = await do(hubbed.owner, "/mcp show modern")
            return "modern:grown" in [tool.name for tool in shown.tools]

        await hubbed.until(grown)
        await do(hubbed.owner, "/mcp approve modern grown")
        await hubbed.equip("modern:grown")
        assert (await hubbed.call("modern:grown")).text == "grown"


@pytest.mark.parametrize("timing", [replace(QUICK, probe=600)])  # no probe finds it down
async def test_killed_server_is_down_at_once_and_reconnects(
    hubbed: Hubbed,
) -> None:
    port = free_port()
    words = (sys.executable, MODERN, str(port))
    with running(*words, port=port) as process:
        await hubbed.add("modern", url=f"http://127.0.0.1:{port}/mcp", allow_private=True)
        process.send_signal(signal.SIGKILL)
        process.wait()
        with contextlib.suppress(Unavailable):  # its end may be known already
            assert (await hubbed.call("modern:echo", text="hi")).ending == "error"
        await hubbed.until(lambda: hubbed.state("modern") != "up")
    with running(*words, port=port):
        await hubbed.until(lambda: hubbed.state("modern") == "up")
        assert (await hubbed.call("modern:echo", text="hi")).text == "hi"


@pytest.mark.parametrize("transport", ["streamableHttp", "sse"])
async def test_reference_server_works_over_http(hubbed: Hubbed, transport: str) -> None:
    port = free_port()
    program = from_npm("server-everything")
    path = "sse" if transport == "sse" else "mcp"
    with running(NODE, program, transport, port=port, PORT=str(port)) as process:
        await hubbed.add(
            "every", url=f"http://127.0.0.1:{port}/{path}", allow_private=True, sse=path == "sse"
        )
        assert (await hubbed.call("every:echo", message="hi")).text == "Echo: hi"
        outcome = await hubbed.call("every:get-structured-content", location="Chicago")
        assert outcome.structured["temperature"]
        process.kill()
        process.wait()
        assert (await hubbed.call("every:echo", message="hi")).ending == "error"
        await hubbed.until(lambda: hubbed.state("every") != "up")
    with running(NODE, program, transport, port=port, PORT=str(port)):
        await hubbed.until(lambda: hubbed.state("every") == "up")
        assert (await hubbed.call("every:echo", message="hi")).text == "Echo: hi"


async def test_mcp_add_refuses_an_invalid_url(hubbed: Hubbed) -> None:
    for url in ("ftp://example.org/", "http://a:b@example.org/mcp", "nonsense"):
        await refused(hubbed.owner, f"/mcp add web {url}")
