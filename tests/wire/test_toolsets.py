"""Toolsets: installed by pipe, called, upgraded, exported, uninstalled."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.driver import Person, Server
from support.driver.covers import covers
from support.driver.fixtures import answering_with
from support.driver.model import Asked
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import FUNCTIONS, kit, pack
from support.waiting import wait_until

APP_BUILDER = Path(__file__).parents[2] / "examples" / "toolsets" / "app-builder"


def _answers(asked: Asked) -> Iterator[str | dict[str, Any]]:
    """Build an app: write a page, read it, then run a command on it."""
    steps = [
        ("write_file", {"path": "site/index.html", "content": "<h1>Hi</h1>\n"}),
        ("read_file", {"path": "site/index.html"}),
        ("run_command", {"command": "ls site > listing"}),
    ]
    last_question = max(
        number for number, message in enumerate(asked["messages"]) if message["role"] == "user"
    )
    done = sum(message["role"] == "tool" for message in asked["messages"][last_question:])
    if done < len(steps):
        name, arguments = steps[done]
        yield {"name": f"app-builder__{name}", "arguments": arguments}
    else:
        yield f"last: {asked['messages'][-1]['content']}"


@pytest.fixture(scope="module")
def house() -> Iterator[Server]:
    with answering_with(_answers) as server:
        yield server


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("ann"), role="admin")
    one.does(f"create {name('bench')}")
    yield one
    one.hang_up()


@pytest.fixture
def painted(ann: Person, name: Callable[[str], str]) -> str:
    """The id of the kit, installed and equipped in the room."""
    kit_id = name("kit")
    assert ann.run("toolset import", pack(kit(kit_id)), "-T").status == 0
    ann.does(f"equip room {kit_id}:*")
    return kit_id


def call(person: Person, tool: str, **arguments: Any) -> Any:
    """Call a tool with arguments as JSON; return what came, also of a failed call."""
    done = person.run(f"run --json {tool} {json.dumps(arguments)}")
    return done.json


@needs_bubblewrap
@covers("toolset list", "toolset show")
def test_kit_is_installed_by_a_pipe_and_its_tools_run(ann: Person, painted: str) -> None:
    shown = ann.json(f"toolset show {painted}")
    assert [tool["id"] for tool in shown["tools"]] == sorted(f"{painted}:{x}" for x in FUNCTIONS)
    assert {file["path"]: file["kind"] for file in shown["files"]} == {
        "toolset.yaml": "config", "tools/kit.py": "python", "tools/helpers.py": "python",
    }  # fmt: skip
    assert shown["toolset"]["source"].startswith("zip, sha256:")
    assert painted in [one["id"] for one in ann.json("toolset list")["toolsets"]]
    lines = [line.split("  ") for line in ann.does(f"toolset show {painted}").splitlines()]
    words = [[word.strip() for word in line if word.strip()] for line in lines]
    assert [f"{painted}:paint", "Paint It", "Paint a file"] in words
    assert ["tools/helpers.py", "54 B"] in words
    done = call(ann, f"{painted}:paint", where={"path": "wall", "times": 2})
    assert done["ok"], done
    assert done["structured"] == {
        "room": done["structured"]["room"], "kit": painted, "kind": "Colour",
    }  # fmt: skip
    assert "painted wall" in done["text"]
    assert ann.run("file get wall", b"", "-T").out == "red" * 4
    rows = ann.json(
        "sql SELECT tool_id, toolset_id, entrypoint, display_name, description FROM tools"
        f" WHERE tool_id = '{painted}:paint'"
    )["rows"]
    assert rows == [[f"{painted}:paint", painted, "tools.kit:paint", "Paint It", "Paint a file"]]


@needs_bubblewrap
def test_toolset_takes_no_tools_of_people(ann: Person, painted: str) -> None:
    """The next import would delete them."""
    refused = ann.run(f"tool new {painted}:mine = return 1")
    assert refused.status != 0
    assert f"{painted} holds its own tools; people cannot add tools to it." in refused.err


@needs_bubblewrap
def test_object_with_the_quotes_of_a_shell_is_taken(ann: Person, painted: str) -> None:
    """As of `ssh HOST run TOOL "'{...}'"`, whose shell takes the outer quotes."""
    arguments = json.dumps({"path": "/ts/toolset.yaml"})
    assert "manifest_version" in ann.does(f"run {painted}:peek '{arguments}'")


@needs_bubblewrap
def test_wrong_arguments_name_the_field_before_the_tool_runs(ann: Person, painted: str) -> None:
    refused = ann.run(f"run {painted}:paint " + json.dumps({"where": {"times": "x"}}))
    assert refused.status != 0 and "where" in refused.err + refused.out
    assert ann.json("files")["count"] == 0


@needs_bubblewrap
@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("fail", "ValueError: no paint is left (tools/kit.py, line 38)"),
        ("leave", "The tool failed: it ended with status 7."),
        ("spend", "MemoryError"),
    ],
)
def test_failure_of_a_tool_is_an_error_of_its_call(
    ann: Person, painted: str, tool: str, said: str
) -> None:
    done = call(ann, f"{painted}:{tool}")
    assert not done["ok"] and said in done["text"]
    assert ann.run("look").status == 0
    paths = [item["path"] for item in ann.json("files")["files"]]
    assert paths == (["partial"] if tool == "fail" else []), "what it did until then is kept"


@needs_bubblewrap
def test_result_that_cannot_be_stored_ends_its_call(
    ann: Person, name: Callable[[str], str]
) -> None:
    kit_id = name("deep")
    files = kit(kit_id, functions=("deep",))
    files["tools/kit.py"] = """
def deep():
    value = 1
    for _ in range(101):
        value = [value]
    return value
"""
    assert ann.run("toolset import", pack(files), "-T").status == 0
    ann.does(f"equip room {kit_id}:deep")
    ran = ann.run(f"run {kit_id}:deep")
    assert ran.status != 0 and "its value has over 100 levels" in ran.out, ran


@needs_bubblewrap
def test_tool_sees_nothing_of_the_machine(house: Server, ann: Person, painted: str) -> None:
    for path in (house.data_dir / "world.db", Path("/root/.bashrc"), Path("/etc/shadow")):
        done = call(ann, f"{painted}:peek", path=str(path))
        assert not done["ok"] and "FileNotFoundError" in done["text"]
    done = call(ann, f"{painted}:peek", path="/proc/1/environ")
    assert done["ok"] and "SSHWARMA" not in done["text"]
    assert call(ann, f"{painted}:ask")["text"].endswith("nothing")


@needs_bubblewrap
def test_stopped_call_ends_and_the_server_goes_on(ann: Person, painted: str) -> None:
    screen = ann.sit(room=ann.json("files")["room"])
    screen.enter(f"/run {painted}:wait_long")
    screen.wait_for(f"→ {painted}:wait_long")
    screen.send(b"\x03")
    screen.wait_for("The call was stopped.")
    assert call(ann, f"{painted}:paint", where={"path": "w"})["ok"]


@needs_bubblewrap
def test_upgrade_keeps_decisions_and_deletes_tools_that_are_gone(ann: Person, painted: str) -> None:
    ann.does(f"tool disable {painted}:ask")
    fewer = tuple(one for one in FUNCTIONS if one != "spend")
    again = ann.run("toolset import", pack(kit(painted, "2.0", fewer), folder="top/"), "-T")
    said = f"Upgraded {painted} from 1.0 to 2.0: Kit, 6 tools.\nGone: spend.\n"
    assert again.out.startswith(said), again
    tools = {tool["id"]: tool for tool in ann.json(f"toolset show {painted}")["tools"]}
    assert f"{painted}:spend" not in tools
    assert not tools[f"{painted}:ask"]["enabled"]
    done = call(ann, f"{painted}:paint", where={"path": "w"})
    assert done["ok"], done


@needs_bubblewrap
def test_upgrade_changes_what_the_author_had_set(ann: Person, name: Callable[[str], str]) -> None:
    kit_id = name("kit")

    def install(version: str, *overrides: str) -> dict[str, Any]:
        files = kit(kit_id, version, functions=("ask", "leave"))
        files["toolset.yaml"] += "tool_overrides:\n" + "".join(f"  - {{{x}}}\n" for x in overrides)
        assert ann.run("toolset import", pack(files), "-T").status == 0
        tools = ann.json(f"toolset show {kit_id}")["tools"]
        return {tool["id"].removeprefix(f"{kit_id}:"): tool for tool in tools}

    drawn = "renderer: code, renderer_config: {content: x}"
    tools = install(
        "1", f"tool_id: ask, enabled: false, description_override: A., {drawn}",
        "tool_id: leave, requires_confirmation: true, description_override: B.",
    )  # fmt: skip
    assert (tools["ask"]["enabled"], tools["ask"]["renderer"]) == (False, "code")
    ann.does(f"tool describe {kit_id}:leave = Ours.")
    tools = install(
        "2", "tool_id: ask, description_override: C.", "tool_id: leave, description_override: D."
    )
    ask, leave = tools["ask"], tools["leave"]
    assert (ask["enabled"], ask["description"], ask["renderer"]) == (True, "C.", None)
    assert (leave["confirms"], leave["description"]) == (False, "Ours.")


@needs_bubblewrap
@covers("toolset import", "toolset export", "toolset uninstall")
def test_export_is_imported_again_as_the_same(
    ann: Person, painted: str, name: Callable[[str], str]
) -> None:
    before = ann.json(f"toolset show {painted}")
    exported = ann.run(f"toolset export {painted}", b"", "-T").raw
    asked = ann.run(f"toolset uninstall {painted}")
    assert asked.status != 0 and "with 7 tools" in asked.err and "--yes" in asked.err
    assert ann.does(f"toolset uninstall {painted} --yes").startswith(f"Uninstalled {painted}")
    assert painted not in ann.run("inv all").out
    assert ann.run("toolset import", exported, "-T").status == 0
    after = ann.json(f"toolset show {painted}")
    for one in (before, after):
        del one["toolset"]["installed_at"], one["toolset"]["source"]
        one["files"] = [file for file in one["files"] if file["path"] != "toolset.yaml"]
    assert before == after


@needs_bubblewrap
@covers("toolset enable", "toolset disable")
def test_disabled_toolset_hides_its_tools_until_it_is_enabled(ann: Person, painted: str) -> None:
    assert painted in ann.does("inv")
    ann.does(f"toolset disable {painted}")
    assert painted not in ann.does("inv") + ann.does("inv all") + ann.does("tool list")
    refused = ann.run(f"run {painted}:ask")
    assert refused.status != 0
    assert f"{painted}:ask is unavailable: {painted} is disabled." in refused.err
    ann.does(f"toolset enable {painted}")
    assert call(ann, f"{painted}:ask")["ok"]


@needs_bubblewrap
def test_files_of_a_toolset_are_made_again_and_survive_a_kill(
    house: Server, ann: Person, painted: str
) -> None:
    house.kill()
    shutil.rmtree(house.data_dir / "toolsets")
    house.start()
    assert call(ann, f"{painted}:paint", where={"path": "again"})["ok"]


@needs_bubblewrap
def test_model_builds_the_app_and_a_person_allows_its_command(ann: Person) -> None:
    archive = pack(
        {
            str(path.relative_to(APP_BUILDER)): path.read_text()
            for path in APP_BUILDER.rglob("*")
            if path.suffix in (".py", ".yaml")
        }
    )
    assert ann.run("toolset import", archive, "-T").status == 0
    ann.does("equip room app-builder:*")
    screen = ann.sit(room=ann.json("files")["room"])
    screen.enter("@qwen build it")
    screen.wait_for("asks to run app-builder:run_command")
    assert [item["path"] for item in ann.json("files")["files"]] == ["site/index.html"]
    screen.enter("/deny use less")
    screen.wait_for("qwen: last:")
    assert "listing" not in str(ann.json("files")["files"])
    screen.enter("@qwen build it again")
    wait_until(lambda: ann.json("approvals")["waiting"])
    screen.enter(f"/allow {ann.json('approvals')['waiting'][0]['number']}")
    wait_until(lambda: "listing" in str(ann.json("files")["files"]))
    screen.wait_for_count("qwen: last:", 2)
    rows = ann.json(
        "sql SELECT render_plan, status FROM tool_calls WHERE tool_id = 'app-builder:write_file'"
        " ORDER BY started_at DESC LIMIT 1"
    )["rows"]
    assert [json.loads(rows[0][0]), rows[0][1]] == [
        {"renderer": "code",
         "config": {"file": "site/index.html", "language": "auto", "editable": True}},
        "success",
    ]  # fmt: skip
    shown = ann.does("run app-builder:read_file path=site/index.html")
    assert "open in workspace: /file show site/index.html" in shown
    shown = ann.does('run app-builder:run_command command="echo made"')
    assert shown.splitlines()[1:] == ["  made"]
    steps = ann.json("history show --tools")["entries"][-1]["meta"]["steps"]
    assert [step[0] for step in steps] == [
        "workspace materialized", "imported", "context set", "called", "returned",
        "context cleared", "snapshot made", "render plan made", "call recorded",
    ]  # fmt: skip
    assert ann.json("expand")["steps"] == steps
    assert [step[1] for step in steps] == sorted(step[1] for step in steps)
    ann.does("undo")
    assert [item["path"] for item in ann.json("files")["files"]] == ["site/index.html"]
