"""What the author of a toolset reads of an import: mistakes, warnings, changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.driver import Person, Server
from support.driver.fixtures import serving
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import kit, pack

pytestmark = needs_bubblewrap

HEAD = "from sshwarma_toolset import tool\n"


@pytest.fixture(scope="module")
def house() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("ann"), role="owner")
    one.does(f"create {name('bench')}")
    yield one
    one.hang_up()


def written(kit_id: str, code: str, *functions: str, version: str = "1.0") -> bytes:
    """A toolset with the code of its only module."""
    files = kit(kit_id, version, functions=functions or ("ask",))
    return pack(files | {"tools/kit.py": HEAD + code})


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("@tool(confirm=True)\ndef ask(): ...\n",
         "tool() has no option confirm: it has name, description, requires_confirmation"
         " (tools/kit.py, line 2)"),
        ("@tool(requires_confirmation='no')\ndef ask(): ...\n",
         "requires_confirmation of tool() must be bool (got 'no') (tools/kit.py, line 2)"),
        ("class Odd: ...\ndef ask(it: Odd): ...\n",
         "tools/kit.py, line 3: the parameters of ask cannot be described: it has the type Odd,"
         " which JSON does not have"),
        ("def ask(it, /): ...\n", "it is positional only"),
        ("ask = 3\n", "tools/kit.py has no function ask"),
        ("class ask: pass\n", "tools/kit.py: ask is a class, and an entrypoint is a function"),
        ("import functools as f\nask = f.partial(print)\n", "tools/kit.py: ask is a partial, and"),
    ],
)  # fmt: skip
def test_mistake_in_code_is_refused_with_its_place(
    ann: Person, name: Callable[[str], str], code: str, said: str
) -> None:
    refused = ann.run("toolset import", written(name("kit"), code), "-T")
    assert refused.status == 2
    assert "tools[0].entrypoint (toolset.yaml, line 8), the tool ask, cannot be read" in refused.err
    assert said in refused.err


WARNED = """
def ask(it, *more): ...

@tool
def unlisted(): ...

@tool(name="ask")
def sing(word: str): ...

@tool
def lost(): ...

@tool(name="Hum")
def lost(): ...
"""


def test_probable_mistakes_are_warnings_with_their_place(
    ann: Person, name: Callable[[str], str]
) -> None:
    archive = written(name("kit"), WARNED, "ask", "sing", "lost")
    said = [
        "toolset.yaml: tools[1]: ask is the name of tools[0], too (line 9).",
        *(
            f"toolset.yaml: tools[{index}]: {tool} has neither a description nor a docstring, by"
            f" which models choose it (line {line})."
            for index, tool, line in ((0, "ask", 7), (1, "sing", 9), (2, "lost", 11))
        ),
        "tools/kit.py, line 3: it of ask has no type, so that it takes anything.",
        "tools/kit.py, line 3: *more of ask gets no argument: name each parameter.",
        "tools/kit.py, line 5: unlisted has the decorator of a tool, and toolset.yaml does not list"
        " it.",
        "tools/kit.py, line 11: another function with the name lost takes the place of this one.",
    ]
    done = ann.run("toolset import", archive, "-T")
    assert [line for line in done.out.splitlines() if "Warning" in line] == [
        f"Warning: {one}" for one in said
    ]
    assert ann.run("toolset import --json", archive, "-T").json["warnings"] == said


def test_approval_that_the_manifest_lifts_is_a_warning(
    ann: Person, name: Callable[[str], str]
) -> None:
    kit_id = name("kit")
    files = kit(kit_id, functions=("ask", "sing"))
    files["tools/kit.py"] = "from covalt_toolset import tool\n" + "".join(
        f"\n@tool(requires_confirmation=True)\ndef {one}():\n    'Speak.'\n"
        for one in ("ask", "sing")
    )
    files["toolset.yaml"] = files["toolset.yaml"].replace(
        "tools.kit:ask\n", "tools.kit:ask\n    requires_confirmation: false\n"
    )
    files["toolset.yaml"] += "tool_overrides:\n  - {tool_id: sing, requires_confirmation: false}\n"
    assert ann.run("toolset import --json", pack(files), "-T").json["warnings"] == [
        "toolset.yaml: tools[0].requires_confirmation: false, and the code of ask asks for an"
        " approval: its calls need none (line 9).",
        "toolset.yaml: tool_overrides[0].requires_confirmation: false, and the tool sing asks for"
        " an approval: its calls need none (line 14).",
    ]


def test_schema_that_does_not_fit_its_function_is_a_warning(
    ann: Person, name: Callable[[str], str]
) -> None:
    files = kit(name("kit"), functions=("ask",)) | {
        "tools/kit.py": 'def ask(word):\n    """Ask."""\n'
    }
    files["toolset.yaml"] += "    input_schema: {type: object, properties: {wrd: {}}}\n"
    assert ann.run("toolset import --json", pack(files), "-T").json["warnings"] == [
        "tools/kit.py, line 1: ask has no parameter wrd, which its input_schema has.",
        "tools/kit.py, line 1: ask needs word, which its input_schema does not require.",
    ]


def test_expression_that_no_call_can_resolve_is_a_warning(
    ann: Person, name: Callable[[str], str]
) -> None:
    files = kit(name("kit"), functions=("ask",))
    files["toolset.yaml"] += '    renderer: {type: code, content: "$foo $args.word $chat_id"}\n'
    assert ann.run("toolset import --json", pack(files), "-T").json["warnings"] == [
        "toolset.yaml: tools[0].renderer.content: $foo is unknown: expressions begin with $args,"
        " $return, $chat_id, $workspace, $toolset (line 10).",
        "toolset.yaml: tools[0].renderer.content: $args.word: ask has no parameter word (line 10).",
    ]


def test_refused_server_is_named_with_file_field_and_line(
    ann: Person, name: Callable[[str], str]
) -> None:
    files = kit(name("kit"), functions=("ask",))
    files["toolset.yaml"] += (
        "mcp_servers:\n  - id: srv\n    command: npx\n    env:\n      API_TOKEN: s3cret99\n"
    )
    refused = ann.run("toolset import", pack(files), "-T")
    assert "toolset.yaml: mcp_servers[0].env.API_TOKEN: looks like a secret" in refused.err
    assert "(line 14)" in refused.err


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("?api_key=hunter2", "write api_key=${API_KEY}"),
        ("?a=1&apikey=hunter2", "write apikey=${APIKEY}"),
        ("#access%5ftoken=hunter2", "write access_token=${ACCESS_TOKEN}"),
    ],
)
def test_secret_in_the_address_of_a_server_is_refused(
    ann: Person, name: Callable[[str], str], end: str, said: str
) -> None:
    files = kit(name("kit"), functions=("ask",))
    files["toolset.yaml"] += f'mcp_servers:\n  - id: srv\n    url: "https://mcp.invalid/mcp{end}"\n'
    refused = ann.run("toolset import", pack(files), "-T")
    assert refused.status == 2 and "toolset.yaml: mcp_servers[0].url: the value of" in refused.err
    assert said in refused.err and "(line 12)" in refused.err
    assert "hunter2" not in refused.err


def test_variable_in_the_address_of_a_server_is_accepted(
    ann: Person, name: Callable[[str], str]
) -> None:
    files, server = kit(name("kit"), functions=("ask",)), name("srv")
    address = "https://mcp.invalid/mcp?api_key=${API_KEY}&page=2"
    files["toolset.yaml"] += f'mcp_servers:\n  - id: {server}\n    url: "{address}"\n'
    assert ann.run("toolset import", pack(files), "-T").status == 0


def test_upgrade_says_what_is_different(ann: Person, name: Callable[[str], str]) -> None:
    kit_id = name("kit")
    code = "def ask(): ...\ndef fail(): ...\n"
    first = ann.run("toolset import --json", written(kit_id, code, "ask", "fail"), "-T").json
    assert (first["is_new"], first["version_before"], first["added"]) == (True, "", [])
    ann.does(f"equip room {kit_id}:*")
    code = 'def ask(word: str):\n    "Ask."\ndef sing():\n    "Sing."\n'
    archive = written(kit_id, code, "ask", "sing", version="2.0")
    said = ann.run("toolset import", archive, "-T").out
    assert said == (
        f"Upgraded {kit_id} from 1.0 to 2.0: Kit, 2 tools.\n"
        "New: sing.\nGone: fail.\nChanged: ask.\n"
        f"The new ones are not equipped here, where single tools of {kit_id} are."
        f" /equip room {kit_id}:* equips them in a room."
        f" /load {kit_id} room loads those of later versions, too.\n"
    )
    room = (
        f"upgraded the toolset {kit_id} to 2.0 (before: 1.0; new: sing; gone: fail; changed: ask)"
    )
    assert room in " ".join(ann.does("history").split())
    ann.does(f"load {kit_id} room")
    code += "def hum(): ...\n"
    archive = written(kit_id, code, "ask", "sing", "hum", version="3.0")
    done = ann.run("toolset import --json", archive, "-T").json
    assert (done["version_before"], done["added"], done["removed"]) == ("2.0", ["hum"], [])
    assert (done["changed"], done["code_changed"]) == ([], True)  # their module is
    assert (done["unequipped_here"], done["unequipped_elsewhere"]) == (False, 0)
    assert ann.run(f"run {kit_id}:hum").status == 0


def test_import_of_the_same_file_says_that_nothing_is_different(
    ann: Person, name: Callable[[str], str]
) -> None:
    kit_id, code = name("kit"), 'def ask():\n    "Ask."\n'
    archive = written(kit_id, code, "ask")
    assert ann.run("toolset import", archive, "-T").status == 0
    assert (
        ann.run("toolset import", archive, "-T").out == f"{kit_id} 1.0 is unchanged: Kit, 1 tool.\n"
    )
    assert f"imported the toolset {kit_id} 1.0 again, unchanged" in ann.does("history")
    assert ann.run("toolset import --json", archive, "-T").json["how"] == "unchanged"
    changed = written(kit_id, code.replace("Ask", "Asks"), "ask")
    said = f"Replaced {kit_id}, still 1.0: Kit, 1 tool.\nChanged: ask.\n"
    assert ann.run("toolset import", changed, "-T").out == said
    room = f"replaced the toolset {kit_id}, still 1.0 (changed: ask)"
    assert room in " ".join(ann.does("history").split())


def test_uninstall_and_a_later_import_name_the_rooms_that_had_it(
    house: Server, name: Callable[[str], str]
) -> None:
    """What a room had equipped does not come back."""
    kit_id, room, hidden = name("kit"), name("lab"), name("hidden")
    ann = house.person(name("ann"), role="admin")
    bob = house.person(name("bob"))
    bob.does(f"create {hidden}", "room private")
    rooms = f"{hidden}, {room}"
    archive = written(kit_id, 'def ask():\n    "Ask."\n', "ask")
    assert ann.run("toolset import", archive, "-T").status == 0
    ann.does(f"create {room}", f"equip room {kit_id}:*")
    bob.does(f"load {kit_id} room")
    asked = ann.run(f"toolset uninstall {kit_id}")
    assert asked.status == 2 and f"It is equipped in {rooms}." in asked.err
    said = ann.does(f"toolset uninstall {kit_id} --yes")
    assert said == f"Uninstalled {kit_id} with 1 tool. It was equipped in {rooms}.\n"
    said = ann.run("toolset import", archive, "-T").out
    assert said == (
        f"Installed {kit_id} 1.0: Kit, 1 tool.\n"
        f"It was equipped in {rooms} before it was uninstalled, and is not now."
        f" /equip room {kit_id}:* equips it in a room.\n"
    )
    told = f"installed the toolset {kit_id} 1.0, which is not equipped here any more: /equip room"
    assert told in " ".join(bob.does("history").split())
    assert ann.run("toolset import", archive, "-T").out.startswith(f"{kit_id} 1.0 is unchanged")
    assert ann.does(f"toolset uninstall {kit_id} --yes") == f"Uninstalled {kit_id} with 1 tool.\n"
    done = ann.run("toolset import --json", archive, "-T").json
    assert (done["equipped_before"], done["equipped_before_count"]) == ([], 0)
    for one in (ann, bob):
        one.hang_up()


def test_import_over_a_linked_toolset_says_that_the_link_ends(
    ann: Person, name: Callable[[str], str], tmp_path: Path
) -> None:
    kit_id = name("kit")
    for path, text in kit(kit_id, functions=("ask",)).items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    ann.does(f"toolset link {tmp_path}")
    done = ann.run("toolset import", pack(kit(kit_id, "2.0", functions=("ask",))), "-T")
    assert f"It is not linked to {tmp_path} any more.\n" in done.out
    again = ann.json(f"toolset link {tmp_path}")
    assert (again["how"], again["ended_link"], again["version_before"]) == ("linked", "", "2.0")


def test_disabled_toolset_is_not_found(ann: Person, name: Callable[[str], str]) -> None:
    kit_id, word = name("kit"), "zymurgy"
    code = f'def ask():\n    """Brew with {word}."""\n\ndef sing(): ...\n'
    archive = written(kit_id, code, "ask", "sing")
    assert ann.run("toolset import", archive, "-T").status == 0

    def found(query: str) -> list[str]:
        return [one["id"] for one in ann.json(f"find {query}")["found"]]

    assert kit_id in found(word) and kit_id in found("")
    ann.does(f"tool disable {kit_id}:ask")
    assert word not in str(ann.json(f"find {word}")["found"])
    ann.does(f"tool enable {kit_id}:ask", f"toolset disable {kit_id}")
    assert kit_id not in found(word) and kit_id not in found("")
    ann.does(f"toolset enable {kit_id}")
    assert kit_id in found(word)


def test_names_of_tools_for_people_are_listed(ann: Person, name: Callable[[str], str]) -> None:
    kit_id = name("kit")
    code = (
        '@tool(name="Ask Away")\ndef ask(): ...\n\n'
        '@tool(description="Make music")\ndef sing(): ...\n\ndef hum(): ...\n'
    )
    files = kit(kit_id, functions=("ask", "sing", "hum")) | {"tools/kit.py": HEAD + code}
    files["toolset.yaml"] += "tool_overrides: [{tool_id: sing, name_override: Sing Along}]\n"
    assert ann.run("toolset import", pack(files), "-T").status == 0
    listed = {one["name"]: one for one in ann.json(f"tool list {kit_id}:*")["tools"]}
    titles = {key.partition(":")[2]: one["title"] for key, one in listed.items()}
    assert titles == {"ask": "Ask Away", "sing": "Sing Along", "hum": ""}
    drawn = ann.does(f"tool list {kit_id}:*")
    assert "Ask Away" in drawn and "Sing Along: Make music" in " ".join(drawn.split())
