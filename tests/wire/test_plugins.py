"""Plugins: called at every door, with the files and the memory of the room."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from support.driver import Person, Server
from support.driver.covers import covers
from support.driver.fixtures import homes
from support.driver.model import Asked, Model
from support.http_api import Api
from support.plugin_folders import call, moltbook, plugged, tool, write_plugins
from support.sandboxes import needs_bubblewrap

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "tools"

FILES = moltbook(
    post=tool("post", """
    from pathlib import Path
    Path("post").write_text(args["word"])
    print("written")
    return shout(args["word"])
"""),
    fail=tool("fail", """
    from pathlib import Path
    Path("half").write_text("half")
    raise ValueError("no word")
"""),
    know=tool("know", """
    return {"name": __name__, "own": DEFINITION["function"]["name"], "more": [1, None],
            "pinned": session_data["__pinned_project__"]}
"""),
    many=tool("many", "return sorted(special_resources)").replace(
        "args, session_data", "args, session_data, special_resources"),
    bare=tool("bare", "return len(args)").replace("args, session_data", "args"),
    ask=tool("ask") + "\n\ndef needs_approval(args):\n    return args.get('word') == 'loud'\n",
    count=tool("count", """
    memory = session_data["memory"]
    memory["count"] = str(int(memory.get("count", "0")) + 1)
    memory.pop("draft", None)
    if args.get("number"):
        session_data["memory"] = dict(memory) | {"number": 7}
    if args.get("fails"):
        raise RuntimeError("after it was counted")
    return sorted(memory.items())
"""),
    named=tool("named", "return [args['word'], sorted(session_data)]").replace(
        "args, session_data", "*, args, session_data"),
    plain=tool("plain", "return 'nothing was given'").replace("args, session_data", ""),
    asks=tool("asks") + "\n\nneeds_approval = True\n",
    never=tool("never") + "\n\ndef needs_approval(args):\n    return False\n",
    kept=tool("kept") + """
LEAVE_OUT = "OMIT"
LEAVE_OUT_PER_ACTION = {"get": "KEEP", "set": ("SHORT", 80)}
""",
)  # fmt: skip

pytestmark = needs_bubblewrap

__all__ = ["plugged"]


def _answers(asked: Asked) -> Iterator[str | dict[str, Any]]:
    """Call the tool by the name of its plugin, then say what came."""
    last = asked["messages"][-1]
    if last["role"] == "tool":
        yield f"came: {last['content']}"
    else:
        yield {"name": "moltbook_post", "arguments": {"word": "model"}}


@pytest.fixture(scope="module")
def house() -> Iterator[Server]:
    with homes() as make:
        home = make()
        write_plugins(home, FILES)
        server = Server(home, "--load-custom-tools", limits__lines_per_10_seconds=1_000_000)
        yield server
        server.owner.hang_up()
        assert server.stop() == 0


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("ann"))
    one.does(f"create {name('bench')}")
    yield one
    one.hang_up()


@asynccontextmanager
async def client_of(house: Server, person: Person) -> AsyncIterator[Client]:
    token = person.json("token new agent --scope act")["token"]
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
        Client(streamable_http_client(f"http://{house.http}/mcp", http_client=http)) as client,
    ):
        yield client


@pytest.mark.parametrize(
    "called", ["moltbook:post", "moltbook_post", "moltbook__post", "moltbook.post"]
)
def test_tool_runs_by_each_of_its_names_on_the_files_of_the_room(ann: Person, called: str) -> None:
    done = call(ann, called, word="hello")
    assert done["ok"] and done["tool"] == "moltbook:post", done
    assert done["text"] == "HELLO\n\nprinted:\nwritten", done
    assert ann.does("file get post") == "hello"
    assert done["changes"] == "changed post", done


async def test_tool_is_called_over_mcp_http_and_from_lua(house: Server, ann: Person) -> None:
    async with client_of(house, ann) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert "moltbook.post" in names
        for name in ("moltbook.post", "moltbook_post"):
            done = await client.call_tool(name, {"word": "mcp"})
            assert not done.is_error and done.content[0].text.startswith("MCP"), done
    token = ann.json("token new web --scope act")["token"]
    api = Api(house, token)
    body = json.dumps({"name": "moltbook_post", "arguments": {"word": "web"}}).encode()
    answer = api.ask("verbs/run", body)
    assert answer.status == 200 and answer.data["result"]["text"].startswith("WEB"), answer
    ann.does("tool new twice = return host.call('moltbook_post', {word='lua'})")
    assert call(ann, "twice")["text"].startswith("LUA")


def test_own_definition_and_session_data_are_as_the_plugin_expects(
    house: Server, ann: Person
) -> None:
    done = call(ann, "moltbook:know")
    assert done["structured"] == {
        "name": "_custom_moltbook_know", "own": "know", "more": [1, None],
        "pinned": os.path.realpath(house.home),
    }  # fmt: skip
    assert call(ann, "moltbook:many")["structured"] == ["room", "workspace"]
    assert call(ann, "moltbook:bare", word="x")["structured"] == 1
    named = call(ann, "moltbook:named", word="x")
    assert named["structured"] == ["x", ["__pinned_project__", "memory"]], named
    plain = call(ann, "moltbook:plain")
    assert plain["text"] == "nothing was given", plain


def test_changes_of_the_session_memory_are_stored_after_the_call(ann: Person) -> None:
    ann.does("mem session set draft = Dear all,", "mem session set stays = here")
    done = call(ann, "moltbook:count")
    assert done["structured"] == [["count", "1"], ["stays", "here"]], done
    assert ann.does("mem session get count") == "1"
    assert ann.json("mem session list")["keys"] == ["count", "stays"]
    refused = call(ann, "moltbook:count", number=True)
    assert not refused["ok"]
    assert (
        "Its changes of the session memory were not stored: session memory has text"
        in (refused["text"])
    ), refused
    assert ann.does("mem session get count") == "1", "all of it or nothing"
    assert not call(ann, "moltbook:count", fails=True)["ok"]
    assert ann.does("mem session get count") == "2", "what it changed until then is kept"


def test_pinned_project_reaches_a_plugin_and_is_never_stored() -> None:
    with homes() as make:
        home = make() / "a-directory-of-its-own"
        write_plugins(home, moltbook(know=FILES["moltbook/know.py"], mute=tool("mute", "return 1")))
        server = Server(home, "--load-custom-tools")
        call(server.owner, "moltbook:mute")
        rows = "".join(json.dumps(row) for row in server.query("SELECT * FROM tool_calls"))
        rows += "".join(json.dumps(row) for row in server.query("SELECT * FROM rows"))
        assert "moltbook:mute" in rows and "a-directory-of-its-own" not in rows
        server.owner.hang_up()
        assert server.stop() == 0
        server = Server(home, "--load-custom-tools", memory__pin_project=False)
        assert call(server.owner, "moltbook:know")["structured"]["pinned"] is None
        server.owner.hang_up()
        assert server.stop() == 0


def test_error_of_a_tool_is_its_last_line_and_keeps_the_files(ann: Person) -> None:
    done = call(ann, "moltbook:fail")
    assert not done["ok"] and done["text"] == "ValueError: no word", done
    assert ann.does("file get half") == "half"


def test_traceback_is_shown_if_that_is_set(plugged: Callable[..., Server]) -> None:
    server = plugged("--load-custom-tools", "--plugin-tracebacks", files=FILES)
    text = call(server.owner, "moltbook:fail")["text"]
    assert text.startswith("Traceback (most recent call last):\n"), text
    assert "/ts/tools/moltbook/fail.py" in text and text.endswith("\nValueError: no word")
    assert "worker.py" not in text and "plugin_loader.py" not in text


def test_plugin_says_who_is_asked_and_what_stays_in_the_context(house: Server, ann: Person) -> None:
    tools = {one["name"]: one for one in ann.json("tool list moltbook:*")["tools"]}
    assert tools["moltbook:ask"]["confirms"] and not tools["moltbook:never"]["confirms"]
    assert tools["moltbook:asks"]["confirms"], "a value that is no function"
    query = "SELECT metadata FROM things WHERE qualified_name = 'moltbook:kept'"
    kept = json.loads(house.query(query)[0][0])
    assert kept["leave_out"] == "OMIT"
    assert kept["leave_out_per_action"] == {"get": ["KEEP", None], "set": ["SHORT", 80]}
    assert ann.json("examine moltbook:kept")["leave_out"] == {
        "policy": "OMIT", "per_action": {"get": "KEEP", "set": "SHORT 80"}, "decided": False,
    }  # fmt: skip


@covers("tools info", "plugins list")
def test_report_counts_built_in_tools_and_those_of_plugins(house: Server, ann: Person) -> None:
    info = ann.json("tools info")
    assert list(info) == ["totalCount", "builtinCount", "builtinPath", "names", "customPlugins"]
    path = str(house.home / "tools" / "moltbook")
    assert info["customPlugins"] == [{"name": "moltbook", "count": 12, "path": path}]
    assert info["totalCount"] == info["builtinCount"] + 12 == len(info["names"])
    assert len(set(info["names"])) == len(info["names"])
    assert {"moltbook_post", "look"} <= set(info["names"])
    assert info["builtinPath"] == "sshwarma/verbs/"
    token = ann.json("token new web --scope read")["token"]
    answer = Api(house, token).ask("verbs/tools_info", b"{}")
    assert answer.status == 200 and answer.data["result"] == info, answer
    shown = ann.does("tools")
    assert shown.splitlines()[:5] == [
        f"{info['totalCount']} tools loaded",
        "of the program itself and of plugins; others are not counted",
        f"sshwarma/verbs/ ({info['builtinCount']} built-in)",
        "moltbook/ (12 tools)",
        f"  {path}",
    ]
    assert "· moltbook_post" in shown
    assert ann.json("plugins list") == {"plugins": info["customPlugins"]}


def test_plugins_import_each_other_and_share_a_namespace(plugged: Callable[..., Server]) -> None:
    more = tool("more", "return shout(SHARED)").replace(
        "\nDEF", "\nfrom tools.both import SHARED\n\nDEF"
    )
    files = {"both.py": "SHARED = 'both'\n", "z/__init__.py": "TOOL_NAMESPACE = 'moltbook'\n",
             "z/more.py": more}  # fmt: skip
    server = plugged("--load-custom-tools", files=moltbook() | files)
    assert call(server.owner, "moltbook_more")["text"] == "BOTH"
    server.owner.hang_up()
    server.stop()
    server.start()
    assert call(server.owner, "moltbook_more")["text"] == "BOTH"
    items = server.owner.json("plugins")["plugins"]
    assert [(one["name"], one["count"]) for one in items] == [("moltbook", 1), ("z", 1)]
    server.owner.hang_up()


def test_example_runs(plugged: Callable[..., Server]) -> None:
    files = {str(file.relative_to(EXAMPLE)): file.read_text() for file in EXAMPLE.rglob("*.py")}
    server = plugged("--load-custom-tools", files=files)
    said = call(server.owner, "moltbook_some_tool", title="hello", text="World")
    assert said["text"] == "This is post 1."
    assert server.owner.does("file get posts.md") == "# Hello\n\nWorld\n\n"
    assert server.owner.does("mem session get moltbook_posts") == "1"
    server.owner.hang_up()


def test_setting_and_variable_load_plugins_too() -> None:
    with homes() as make:
        home = make()
        write_plugins(home, moltbook())
        server = Server(home, plugins__load=True)
        assert call(server.owner, "moltbook_post", word="x")["text"] == "X"
        assert server.stop() == 0


def test_model_calls_a_plugin_and_reads_what_came() -> None:
    model = Model(_answers)
    with homes() as make:
        home = make()
        write_plugins(home, moltbook())
        models = json.dumps([model.settings("qwen")])
        server = Server(home, "--load-custom-tools", models=models)
        server.owner.does("say --wait @qwen post")
        offered = [tool["function"]["name"] for tool in model.asked[0]["tools"]]
        assert "moltbook__post" in offered
        assert "came: MODEL" in server.owner.does("history")
        server.owner.hang_up()
        assert server.stop() == 0
    model.close()
