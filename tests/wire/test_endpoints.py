"""Operations with names of their own over HTTP, by a token."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sshwarma.web.endpoints import ENDPOINTS
from support.driver import Person, Server
from support.http_api import Api
from support.sandboxes import needs_bubblewrap

TOP = Path(__file__).parents[2]
APP_BUILDER = TOP / "examples" / "toolsets" / "app-builder"
REFUSED = 422


def api_of(server: Server, name: str, room: str, scope: str = "build") -> Api:
    """The API for an agent in a room, with a new token."""
    return Api(server, server.operate("token_new", name=name, scope=scope)["token"], room)


@pytest.fixture
def archive(tmp_path: Path) -> bytes:
    return Path(shutil.make_archive(str(tmp_path / "kit"), "zip", APP_BUILDER)).read_bytes()


@needs_bubblewrap
def test_toolset_is_installed_switched_exported_and_uninstalled(
    serve: Callable[..., Server], archive: bytes
) -> None:
    server = serve()
    api = api_of(server, server.owner.name, "lobby")
    assert api.get("list_toolsets")["toolsets"] == []
    answer = api.ask("import_toolset", archive, "application/zip")
    assert (answer.status, answer.data["text"][:21]) == (200, "Installed app-builder")
    shown = api.get("get_toolset", name="app-builder")
    source = f"zip, sha256:{hashlib.sha256(archive).hexdigest()}"
    assert (shown["toolset"]["source"], shown["toolset"]["installed_over"]) == (source, "HTTP")
    names = {tool["id"] for tool in shown["tools"]}
    assert len(names) == 3 and all(name.startswith("app-builder:") for name in names)
    assert names < {tool["name"] for tool in api.get("list_tools")["tools"]}
    assert not names & {tool["name"] for tool in api.get("get_available_tools")["tools"]}
    server.owner.does("equip room app-builder:*")
    available = {tool["name"] for tool in api.get("get_available_tools")["tools"]}
    assert names < available
    answer = api.ask("export_toolset", query={"name": "app-builder"})
    assert (answer.status, answer.headers["content-type"]) == (200, "application/zip")
    assert answer.headers["content-disposition"] == 'attachment; filename="app-builder-1.0.0.zip"'
    assert answer.headers["etag"] == f'"{hashlib.sha256(answer.body).hexdigest()}"'
    assert "toolset.yaml" in zipfile.ZipFile(io.BytesIO(answer.body)).namelist()
    for is_on in (False, True):
        assert api.post("enable_toolset", name="app-builder", enabled=is_on)[0] == 200
        usable = {t["name"] for t in api.get("list_tools")["tools"] if not t["obstacle"]}
        assert names & usable == (names if is_on else set())
    shown = api.get("get_tool", name="app-builder:read_file")["renderer"]
    assert shown["renderer"] == "code" and shown["config"]["file"] == "$args.path"
    status, refusal = api.post("uninstall_toolset", name="app-builder")
    call = 'uninstall_toolset {"name": "app-builder", "yes": true}'
    assert status == REFUSED and refusal["hint"] == f"{call} does it."
    assert api.post("uninstall_toolset", name="app-builder", yes=True)[0] == 200
    assert api.get("list_toolsets")["toolsets"] == []


def test_files_of_a_room_are_read(world: Server, alice: Person, bob: Person, room: str) -> None:
    content = bytes(range(256)) * 5_000
    alice.run(f"file put 'data/ü x.bin' --room {room}", content)
    api = api_of(world, alice.name, room, "read")
    (listed,) = api.get("get_workspace_files", path="data")["files"]
    assert listed["path"] == "data/ü x.bin"
    answer = api.ask("get_workspace_file", query={"path": "data/ü x.bin"})
    assert (answer.status, answer.body) == (200, content)
    assert answer.headers["x-content-type-options"] == "nosniff"
    manifest = api.get("get_workspace_manifest")
    assert manifest["files"] == {"data/ü x.bin": hashlib.sha256(content).hexdigest()}
    for path in ("../world.db", "/etc/passwd"):
        assert api.ask("get_workspace_file", query={"path": path}).status == REFUSED
    alice.does(f"room private --room {room}")
    assert api_of(world, bob.name, room).ask("get_workspace_files").status in (403, 404)


def test_memory_and_the_server_are_read(world: Server, alice: Person, room: str) -> None:
    alice.run(f"mem project set plan-of-{room} --room {room}", b"<b>Friday</b>\n", "-T")
    alice.run(f"mem session set draft --room {room}", b"one", "-T")
    api = api_of(world, alice.name, room, "read")
    listed = api.get("get_project_memory_keys", prefix=f"plan-of-{room}", limit="5")
    assert (listed["keys"], listed["total"]) == ([f"plan-of-{room}"], 1)
    value = api.get("get_project_memory_value", key=f"plan-of-{room}")
    assert (value["key"], value["value"], value["found"]) == (
        f"plan-of-{room}", "<b>Friday</b>\n", True,
    )  # fmt: skip
    assert api.ask("get_env_info").headers["x-content-type-options"] == "nosniff"
    missing = api.get("get_project_memory_value", key="none")
    assert (missing["key"], missing["value"], missing["found"]) == ("none", "", False)
    assert api.get("get_session_memory_keys")["keys"] == ["draft"]
    assert api.get("get_session_memory_value", key="draft")["value"] == "one"
    assert api.get("get_env_info").keys() == {"os", "shell", "initialCwd"}
    info = api.get("get_tools_info")
    assert info["totalCount"] == info["builtinCount"] == len(info["names"])
    assert info["customPlugins"] is None and info["builtinPath"] == "sshwarma/verbs/"
    refused = api.ask(
        "get_project_memory_value",
        query={"key": f"plan-of-{room}", "target_session_key": "copy"},
    )
    assert refused.status == REFUSED and "a GET changes nothing" in refused.data["message"]


def test_wrong_requests_are_refused_by_name(world: Server, alice: Person, room: str) -> None:
    api = api_of(world, alice.name, room)
    for name, query, told in (
        ("get_tool", {}, "name"),
        ("get_tool", {"name": "sshwarma:look", "colour": "red"}, "colour"),
        ("get_workspace_file", {"path": "nothing"}, "nothing"),
    ):
        refusal = api.ask(name, query=query)
        assert refusal.status in (404, REFUSED) and told in refusal.data["message"]
    status, answer = api.post("enable_toolset", name="x", enabled="no")
    assert (status, answer["message"]) == (REFUSED, "enabled: must be true or false.")
    answer = api.ask("get_toolset")
    assert answer.data["message"] == "get_toolset: name: required."
    missing = api.ask("get_workspace_file", query={"path": "nothing"})
    assert missing.data["hint"] == "get_workspace_files lists them."
    member = api.ask("import_toolset", b"PK", "application/zip")
    assert member.status == 403, "a member may not import"
    assert api.ask("export_toolset", b"{}").status == 405
    api.token = "swt_nonsense"
    assert api.ask("list_tools").status == 401


def test_archive_in_another_form_is_refused_in_the_words_of_the_door(
    serve: Callable[..., Server],
) -> None:
    server = serve()
    api = api_of(server, server.owner.name, "lobby")
    for kind in ("application/json", "application/octet-stream"):
        refusal = api.ask("import_toolset", b"PK\xff", kind)
        assert refusal.status == REFUSED
        assert refusal.data["hint"] == "Send a file with the content type application/zip."
    status, answer = api.post("import_toolset", archive="kit.zip")
    assert (status, answer["hint"]) == (REFUSED, "Give the file in base64, and encoded: true.")
    typed = server.owner.run("toolset import kit.zip")
    assert typed.status != 0 and "ssh HOST toolset import < kit.zip" in typed.err, typed
    screen = server.owner.sit()
    screen.enter("/toolset import kit.zip")
    screen.wait_for("ssh HOST toolset import < kit.zip")


def test_description_of_the_api_has_every_endpoint_and_verb(world: Server) -> None:
    with urllib.request.urlopen(f"http://{world.http}/api/openapi.json", timeout=30) as answer:
        described = json.load(answer)
    assert described["openapi"].startswith("3.1")
    paths = described["paths"]
    assert set(paths["/api/v1/import_toolset"]["post"]["requestBody"]["content"]) == {
        "application/json", "application/zip",
    }  # fmt: skip
    (name,) = [
        one for one in paths["/api/v1/get_toolset"]["get"]["parameters"] if one["name"] == "name"
    ]
    assert name["required"] and name["schema"] == {"type": "string"}
    identifiers = [one["operationId"] for path in paths.values() for one in path.values()]
    assert len(identifiers) == len(set(identifiers)) > 100


def test_page_names_every_endpoint() -> None:
    page = (Path(__file__).parents[2] / "docs" / "http.md").read_text("utf-8")
    named = set(re.findall(r"`(GET|POST) (\w+)`", page))
    assert named == {(endpoint.method, endpoint.name) for endpoint in ENDPOINTS}


def test_the_python_of_the_page_runs(world: Server, alice: Person, room: str) -> None:
    """It says something, and reads the whole log, page by page."""
    for number in range(60):
        alice.does(f"say --room {room} line {number}")
    page = (TOP / "docs" / "http.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    token = world.operate("token_new", name=alice.name, scope="act")["token"]
    environ = {**os.environ, "WORLD": f"http://{world.http}", "TOKEN": token, "ROOM": room}
    done = subprocess.run(
        [sys.executable, "-c", source], env=environ, capture_output=True, text=True, check=True
    )
    printed = done.stdout.splitlines()
    assert printed[0].endswith(f"{alice.name} hello from Python")
    assert [line.split()[-1] for line in printed if " line " in line] == [
        str(number) for number in reversed(range(60))
    ]
