"""MCP servers that toolsets declare: connected, in a sandbox, gone with them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.driver import Person, Server
from support.driver.fixtures import serving
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import kit, pack
from support.waiting import wait_until

PROGRAM = Path(__file__).parents[1] / "support" / "programs" / "bundled_server.py"

pytestmark = needs_bubblewrap


@pytest.fixture(scope="module")
def house() -> Iterator[Server]:
    with serving(environ={"COLOUR": "crimson"}) as server:
        yield server


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("ann"), role="owner")
    one.does(f"create {name('bench')}")
    yield one
    one.hang_up()


def bundle(kit_id: str, server: str, more: str = "", version: str = "1") -> bytes:
    """A kit with an MCP server."""
    files = kit(kit_id, version, functions=("ask",))
    files["toolset.yaml"] += (
        f"mcp_servers:\n  - id: {server}\n    command: python3\n    args: [-u, /ts/server.py]\n"
        f"    env: {{SHADE: 'dark ${{COLOUR}}'}}\n{more}"
    )
    return pack(files | {"server.py": PROGRAM.read_text()})


def state(person: Person, server: str) -> str:
    servers = person.json("mcp list")["servers"]
    return str(next((one["state"] for one in servers if one["name"] == server), "none"))


def call(person: Person, tool: str, **arguments: Any) -> str:
    words = " ".join(f"{name}={value}" for name, value in arguments.items())
    return str(person.json(f"run {tool} {words}")["text"])


def test_server_of_a_toolset_lives_and_ends_with_it(
    house: Server, ann: Person, name: Callable[[str], str]
) -> None:
    kit_id, server = name("kit"), name("srv")
    done = ann.run("toolset import", bundle(kit_id, server), "-T")
    assert (done.status, done.out) == (
        0, f"Installed {kit_id} 1: Kit, 1 tool, 1 MCP server.\n"
        f"/equip room {kit_id}:* equips its tools in a room.\n",
    )  # fmt: skip
    wait_until(lambda: state(ann, server) == "up")
    ann.does(f"equip room {server}:*")
    assert call(ann, f"{server}:env", name="SHADE") == "dark crimson"
    assert call(ann, f"{server}:env", name="SSHWARMA_DATA_DIR") == "not set"
    database = house.data_dir / "world.db"
    assert call(ann, f"{server}:read", path=database) == "No such file or directory"
    assert call(ann, f"{server}:reach", port=house.port) == "no: Connection refused"
    rows = ann.json(
        "sql SELECT id, toolset_id, server_type, enabled, command, args, url,"
        f" requires_confirmation FROM toolset_mcp_servers WHERE toolset_id = '{kit_id}'"
    )["rows"]
    assert rows == [
        [server, kit_id, "stdio", 1, "python3", '["-u", "/ts/server.py"]', None, 0],
    ]  # fmt: skip
    (shown,) = ann.json(f"toolset show {kit_id}")["servers"]
    assert (shown["id"], shown["kind"], shown["state"]) == (server, "stdio", "up")
    assert f"{server}  MCP server, stdio  up" in ann.does(f"toolset show {kit_id}")
    ann.does(f"toolset disable {kit_id}")
    assert state(ann, server) == "disabled"
    assert ann.run(f"run {server}:env name=SHADE").status == 1
    ann.does(f"toolset enable {kit_id}")
    wait_until(lambda: state(ann, server) == "up")
    house.kill()
    house.start()
    wait_until(lambda: state(ann, server) == "up")
    assert call(ann, f"{server}:env", name="SHADE") == "dark crimson"
    refused = ann.run(f"mcp remove {server}")
    assert refused.status == 1
    exported = ann.run(f"toolset export {kit_id}", b"", "-T").raw
    ann.does(f"toolset uninstall {kit_id} --yes")
    assert state(ann, server) == "none"
    assert server not in ann.does("inv all")
    assert ann.run("toolset import", exported, "-T").status == 0
    wait_until(lambda: "SHADE is not set" in str(ann.json("mcp list")))
    ann.does(f"toolset uninstall {kit_id} --yes")
    house.owner.does(f"mcp add {server} --allow-private http://127.0.0.1:9/mcp")
    house.owner.does(f"mcp remove {server}")


def test_upgrade_changes_the_servers(
    house: Server, ann: Person, name: Callable[[str], str]
) -> None:
    kit_id, server = name("kit"), name("srv")
    assert ann.run("toolset import", bundle(kit_id, server), "-T").status == 0
    wait_until(lambda: state(ann, server) == "up")
    assert f"Added: by the toolset {kit_id}" in " ".join(ann.does(f"mcp show {server}").split())
    asking = bundle(kit_id, server, "    requires_confirmation: true\n", version="2")
    assert ann.run("toolset import", asking, "-T").status == 0
    wait_until(lambda: state(ann, server) == "up")
    bob = house.person(name("bob"))
    ann.does(f"equip room {server}:*")
    bob.does(f"join {ann.json('files')['room']}")
    denied = bob.run(f"run {server}:env name=SHADE")
    assert "needs the approval of a person" in denied.out + denied.err
    other = name("srv")
    assert ann.run("toolset import", bundle(kit_id, other, version="3"), "-T").status == 0
    wait_until(lambda: state(ann, other) == "up")
    assert state(ann, server) == "none"
    second = ann.run("toolset import", bundle(name("kit"), other), "-T")
    assert second.status == 1
    assert f"{other} is already an MCP server of the toolset {kit_id} (line 11)." in second.err
    ann.does(f"toolset uninstall {kit_id} --yes")


def overriding(server: str, *overrides: str) -> str:
    """The end of a manifest: overrides of tools of its server."""
    entries = "".join(f"  - {{tool_id: '{server}:{one}}}\n" for one in overrides)
    return f"tool_overrides:\n{entries}"


def test_overrides_of_tools_of_a_server_are_in_force(
    house: Server, ann: Person, name: Callable[[str], str]
) -> None:
    kit_id, server = name("kit"), name("srv")
    drawn = "renderer: code, renderer_config: {content: 'got $return', language: text}"
    more = overriding(
        server, "env', requires_confirmation: true, name_override: Environ",
        "reach', enabled: false", f"read', description_override: Reads., {drawn}",
    )  # fmt: skip
    assert ann.run("toolset import", bundle(kit_id, server, more), "-T").status == 0
    wait_until(lambda: state(ann, server) == "up")
    ann.does(f"equip room {server}:*")
    bob = house.person(name("bob"))
    bob.does(f"join {ann.json('files')['room']}")
    denied = bob.run(f"run {server}:env name=SHADE")
    assert "needs the approval of a person" in denied.out + denied.err
    refused = ann.run(f"run {server}:reach port=1")
    assert refused.status != 0 and "disabled" in refused.err
    assert "Environ" in ann.does(f"tool show {server}:env")
    assert "Reads." in ann.does(f"tool show {server}:read")
    assert "got No such file" in ann.does(f"run {server}:read path=/none")
    exported = ann.run(f"toolset export {kit_id}", b"", "-T").raw
    with zipfile.ZipFile(io.BytesIO(exported)) as archive:
        entries = yaml.safe_load(archive.read("toolset.yaml"))["tool_overrides"]
    assert {"tool_id": f"{server}:reach", "enabled": False} in entries and len(entries) == 3
    ann.does(f"toolset uninstall {kit_id} --yes")
    assert ann.run("toolset import", bundle(kit_id, server), "-T").status == 0
    wait_until(lambda: state(ann, server) == "up")
    assert call(bob, f"{server}:env", name="HOME") == "/tmp"
    ann.does(f"toolset uninstall {kit_id} --yes")


def test_override_of_a_tool_of_no_server_is_refused(
    ann: Person, name: Callable[[str], str]
) -> None:
    server = name("srv")
    more = overriding("other", "env', enabled: false")
    refused = ann.run("toolset import", bundle(name("kit"), server, more), "-T")
    assert refused.status != 0 and "other:env is neither a tool of this" in refused.err


def test_approvals_of_a_server_end_with_the_next_version(
    house: Server, ann: Person, name: Callable[[str], str]
) -> None:
    kit_id, server = name("kit"), name("srv")
    asking = bundle(kit_id, server, "    requires_confirmation: true\n")
    assert ann.run("toolset import", asking, "-T").status == 0
    wait_until(lambda: state(ann, server) == "up")
    assert ann.run("toolset import", bundle(kit_id, server, version="2"), "-T").status == 0
    wait_until(lambda: state(ann, server) == "up")
    ann.does(f"equip room {server}:*")
    bob = house.person(name("bob"))
    bob.does(f"join {ann.json('files')['room']}")
    assert call(bob, f"{server}:env", name="SHADE") == "dark crimson"
    ann.does(f"toolset uninstall {kit_id} --yes")


def test_network_needs_the_word_of_an_owner(house: Server, name: Callable[[str], str]) -> None:
    kit_id, server = name("kit"), name("srv")
    archive = bundle(kit_id, server, "    network: true\n")
    admin, owner = house.person(name("cal"), role="admin"), house.owner
    refused = admin.run("toolset import", archive, "-T")
    assert refused.status == 1 and "needs the own right" in refused.err
    refused = owner.run("toolset import", archive, "-T")
    assert refused.status == 2 and "wants the network" in refused.err
    assert owner.run("toolset import --network", archive, "-T").status == 0
    wait_until(lambda: state(owner, server) == "up")
    owner.does(f"create {name('den')}", f"equip room {server}:*")
    assert call(owner, f"{server}:reach", port=house.port) == "reached"
    owner.does(f"toolset uninstall {kit_id} --yes")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("    url: http://example.org/mcp\n", "must have one of command and url"),
        ("    headers: {A: b}\n", "headers belong to a server with a url"),
    ],
)
def test_invalid_server_is_refused_with_its_field(
    ann: Person, name: Callable[[str], str], text: str, said: str
) -> None:
    refused = ann.run("toolset import", bundle(name("kit"), name("srv"), text), "-T")
    assert refused.status != 0 and said in refused.err and "mcp_servers[0]" in refused.err


def test_secret_in_plain_text_is_refused(ann: Person, name: Callable[[str], str]) -> None:
    files = kit(name("kit"), "1", functions=("ask",))
    files["toolset.yaml"] += (
        f"mcp_servers:\n  - id: {name('srv')}\n    command: npx\n    env: {{API_TOKEN: s3cret99}}\n"
    )
    refused = ann.run("toolset import", pack(files), "-T")
    assert refused.status != 0 and "looks like a secret" in refused.err
    assert "s3cret99" not in refused.err


@pytest.mark.parametrize(
    "text",
    [
        "    url: https://example.org/mcp\n",
        "    command: python3\n    env: {X: '${COLOUR}'}\n",
        "    command: python3\n    args: ['${COLOUR}']\n",
    ],
)
def test_address_and_variable_need_an_owner(
    house: Server, name: Callable[[str], str], text: str
) -> None:
    """A variable may be a secret of the server, and an address is where it goes."""
    files = kit(name("kit"), "1", functions=("ask",))
    files["toolset.yaml"] += f"mcp_servers:\n  - id: {name('srv')}\n{text}"
    admin = house.person(name("cal"), role="admin")
    refused = admin.run("toolset import", pack(files), "-T")
    assert refused.status == 1 and "needs the own right" in refused.err


def test_toolset_is_no_namespace_that_can_be_removed(
    ann: Person, name: Callable[[str], str]
) -> None:
    kit_id, server = name("kit"), name("srv")
    assert ann.run("toolset import", bundle(kit_id, server), "-T").status == 0
    refused = ann.run(f"namespace remove {kit_id}")
    assert refused.status == 2 and f"/toolset uninstall {kit_id}" in refused.err
    assert ann.run("toolset import", bundle(kit_id, server), "-T").status == 0
    ann.does(f"toolset uninstall {kit_id} --yes")


def test_private_address_is_refused_with_what_an_owner_can_do(
    ann: Person, name: Callable[[str], str]
) -> None:
    kit_id, server = name("kit"), name("srv")
    files = kit(kit_id, "1", functions=("ask",))
    files["toolset.yaml"] += f"mcp_servers:\n  - id: {server}\n    url: http://127.0.0.1:9/mcp\n"
    assert ann.run("toolset import", pack(files), "-T").status == 0
    wait_until(lambda: state(ann, server) == "down")
    (shown,) = ann.json(f"toolset show {kit_id}")["servers"]
    assert "--allow-private" not in shown["reason"]
    assert "an owner can add it as a server of its own" in shown["reason"]
