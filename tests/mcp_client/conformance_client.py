"""The hub as the client that the official conformance suite tests.

It connects to the URL in the last argument through a world of its own, and does what the scenario
in the environment asks for.

    node .../conformance/dist/index.js client --command "python conformance_client.py" --scenario X

With `--all` in place of a URL it runs every scenario that the hub is held to, one after another.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from sshwarma.mcp.client.hub import Hub, ServerStatus
from sshwarma.mcp.client.pending_sign_in import ClientMetadata
from sshwarma.settings import LimitSettings, McpSettings
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import agents, things
from sshwarma.world.caller import Caller
from sshwarma.world.events import PersonalNotice
from sshwarma.world.presence import AgentConnection
from sshwarma.world.request_services import RequestServices
from sshwarma.world.world import World

SCENARIOS: Final = (
    ("2025-11-25", "initialize"),
    ("2025-11-25", "tools_call"),
    ("2025-11-25", "elicitation-sep1034-client-defaults"),
    ("2025-11-25", "sse-retry"),
    ("2025-11-25", "json-schema-2020-12-preservation"),
    ("2026-07-28", "tools_call"),
    ("2026-07-28", "request-metadata"),
    ("2026-07-28", "sep-2322-client-request-state"),
    ("2026-07-28", "http-standard-headers"),
    ("2026-07-28", "http-custom-headers"),
    ("2026-07-28", "http-invalid-tool-headers"),
    ("2026-07-28", "json-schema-ref-no-deref"),
    ("2026-07-28", "json-schema-2020-12-preservation"),
    ("2025-03-26", "auth/2025-03-26-oauth-metadata-backcompat"),
    ("2025-03-26", "auth/2025-03-26-oauth-endpoint-fallback"),
    *(
        (version, f"auth/{name}")
        for version in ("2025-11-25", "2026-07-28")
        for name in (
            "metadata-default", "metadata-var1", "metadata-var2", "metadata-var3", "basic-cimd",
            "scope-from-www-authenticate", "scope-from-scopes-supported",
            "scope-omitted-when-undefined", "scope-step-up", "scope-retry-limit",
            "token-endpoint-auth-basic", "token-endpoint-auth-post", "token-endpoint-auth-none",
            "pre-registration", "client-credentials-basic",
        )
    ),
    *(
        ("2026-07-28", f"auth/{name}")
        for name in (
            "resource-mismatch", "offline-access-scope", "offline-access-not-supported",
            "authorization-server-migration", "iss-supported", "iss-not-advertised",
            "iss-supported-missing", "iss-wrong-issuer", "iss-unexpected", "iss-normalized",
            "metadata-issuer-mismatch",
        )
    ),
)  # fmt: skip
"""All that is about a client, but for keys, devices and companies that vouch for it, which the hub
does not speak of."""

OURS: Final = ClientMetadata(
    "http://127.0.0.1:3030/oauth/callback", "https://conformance-test.local/client-metadata.json"
)

LOGINS: Final = 3
"""Times one signs in before one gives up."""


class Client:
    """A world with one person in it, who answers whatever is asked with the default."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.hub = Hub(world, folder)
        self.hub.oauth_sign_ins.client_metadata = OURS
        self._logins = 0

    async def connect(self, url: str) -> list[things.Thing]:
        world = self.world
        person = await world.change(lambda tx: agents.create_agent(tx, "alice", role="owner"))
        world.presence.enter(AgentConnection(person.id, "lobby", "ssh"))
        world.bus.on_agent(person.id, self._told)
        self.caller = Caller(world, RequestServices(), LimitSettings(), person, "lobby", "ssh")
        await self.hub.start()
        known = await asyncio.to_thread(_registered, url)
        settings = McpSettings(name="suite", url=url, allow_private=True, call_seconds=20, **known)
        server = await self.hub.add(self.caller, settings)
        while (await self._condition()).state == "needs-sign-in" and await self.login():
            pass
        return await world.store.read(lambda conn: things.read_children(conn, server.id, "tool"))

    async def _condition(self) -> ServerStatus:
        condition = await self.hub.wait_until_settled("suite", 20)
        print("state:", condition.state, condition.reason, file=sys.stderr)
        return condition

    async def login(self) -> bool:
        """Sign in as a person with a browser does; whether that could be tried once more."""
        self._logins += 1
        if self._logins > LOGINS:
            return False
        server = await self.hub.find("suite")
        page = await self.hub.oauth_sign_ins.login(self.caller, server)
        came_to = await asyncio.to_thread(_visited, page.url)
        return await self.hub.oauth_sign_ins.submit_address(server, came_to, 20)

    def _told(self, event: object) -> None:
        if isinstance(event, PersonalNotice) and event.hint:
            has_default = "/answer alone for" in event.hint
            sample = "1" if "number" in event.text else "yes"
            reply = "" if has_default else sample
            asyncio.get_running_loop().call_soon(self.hub.elicitation.answer, event.agent_id, reply)

    async def call(self, tool: things.Thing, arguments: dict[str, Any]) -> None:
        # Not by way of tools.call: it refuses arguments that the tool's schema does, and the suite
        # sends such.
        result = await self.hub.run(self.caller, tool, arguments)
        print(f"{tool.name}({arguments}): {result.is_error}: {result.text[:300]}", file=sys.stderr)
        if "requires more scopes" in result.text and await self.login():
            await self.call(tool, arguments)


def _registered(url: str) -> dict[str, Any]:
    """What the owner knows of a client that was registered for them."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    if "client_secret" not in context:
        return {}
    os.environ["SUITE_SECRET"] = context["client_secret"]
    parts = urlsplit(url)
    where = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    with urllib.request.urlopen(where, timeout=10) as answer:
        issuer = json.load(answer)["authorization_servers"][0]
    return {
        "oauth_client_id": context["client_id"],
        "oauth_client_secret": "${SUITE_SECRET}",
        "oauth_issuer": issuer,
        "oauth_machine": "client-credentials" in context["name"],
    }


def _visited(url: str) -> str:
    """Where a page leads a browser; the suite's authorization servers ask nothing."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        return connection.getresponse().headers["Location"]
    finally:
        connection.close()


def sample(schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments that a schema allows, as far as the suite's go."""
    values: dict[str, Any] = {"string": "text", "integer": 3, "number": 5, "boolean": True}
    return {
        name: values.get(said.get("type"), {})
        for name, said in schema.get("properties", {}).items()
    }


async def act(client: Client, scenario: str, found: list[things.Thing]) -> None:
    """Use what the scenario's server offers."""
    by_name = {tool.name: tool for tool in found}
    schemas = {name: tool.metadata["input_schema"] for name, tool in by_name.items()}
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    if context.get("toolCalls"):
        for call in context["toolCalls"]:
            await client.call(by_name[call["name"]], call["arguments"])
    elif scenario == "json-schema-2020-12-preservation":
        echo = next(name for name, schema in schemas.items() if "schema" in schema["properties"])
        (focal,) = (name for name in by_name if name != echo)
        await client.call(by_name[echo], {"schema": schemas[focal]})
    elif scenario != "initialize":
        await asyncio.gather(
            *(client.call(tool, sample(schemas[name])) for name, tool in by_name.items())
        )


async def main(url: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = await World.open(Path(folder) / "world.db", tool_specs())
        client = Client(world, Path(folder) / "mcp")
        try:
            found = await client.connect(url)
            await act(client, os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), found)
        finally:
            await client.hub.close()
            await world.close()


def run_scenario(version: str, scenario: str) -> str:
    """Run one scenario of the suite; return what it printed if it failed, or ""."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from support.driver.installed import NODE, from_npm

    done = subprocess.run(
        [NODE, from_npm("conformance"), "client", "--command", f"{sys.executable} {__file__}",
         "--scenario", scenario, "--spec-version", version, "--timeout", "60000"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"{done.stdout[-3000:]} {done.stderr[-3000:]}" if done.returncode else ""


def run_all() -> int:
    """Run all scenarios, one per processor at once; return how many failed."""
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outputs = pool.map(lambda case: run_scenario(*case), SCENARIOS)
        for (version, scenario), output in zip(SCENARIOS, outputs, strict=True):
            print(f"{'FAILED' if output else 'ok    '} {version} {scenario}", flush=True)
            if output:
                failed += 1
                print(output)
    return failed


if __name__ == "__main__":
    if sys.argv[-1] == "--all":
        sys.exit(run_all())
    asyncio.run(main(sys.argv[-1]))
