"""Namespaces of tools over ssh and HTTP: made, found, loaded, held back by state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.driver import Person, Server
from support.driver.covers import covers
from support.driver.fixtures import answering
from support.driver.model import Asked, Model

SPACES = {
    "requirement": ("list", "create", "update", "delete"),
    "requirement.traceability": ("link", "unlink", "trace", "matrix"),
    "git": ("status", "commit", "push"),
    "git.branch": ("create", "switch", "delete", "merge"),
    "deploy": ("run",),
}


def _answers(asked: Asked) -> Iterator[str | dict[str, Any]]:
    """Loads git, and then uses it."""
    done = [message for message in asked["messages"] if message["role"] == "tool"]
    match len(done):
        case 0:
            yield {"name": "global__load_room", "arguments": {"room": "git"}}
        case 1:
            yield {"name": "git__status"}
        case _:
            yield f"it says: {done[-1]['content']}"


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    server = Model(_answers)
    yield server
    server.close()


@pytest.fixture(scope="module")
def house(model: Model) -> Iterator[Server]:
    with answering(model) as server:
        owner = server.owner
        for space, tools in SPACES.items():
            for tool in tools:
                owner.does(f"tool new {space}:{tool} = return '{space} {tool}'")
        owner.does(
            "namespace set requirement keywords requirement,req,spec",
            "namespace set requirement description Requirements and their lives",
            "namespace set requirement title Requirement Management",
            "namespace set deploy required_states ci-configured",
        )
        yield server


@pytest.fixture
def ann(house: Server, name: Any) -> Iterator[Person]:
    one = house.person(name("ann"))
    one.does(f"create {name('studio')}")
    yield one
    one.hang_up()


def tools(person: Person) -> set[str]:
    """The names of usable tools outside of the built-in namespaces."""
    return {
        item["name"]
        for item in person.json("inv")["equipped"]
        if item["usable"] and item["namespace"] not in ("global", "memory", "sshwarma")
    }


def listed(person: Person) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in person.json("namespaces")["namespaces"]}


@covers("namespaces", "namespace show")
def test_tool_new_creates_an_unknown_namespace(ann: Person) -> None:
    found = listed(ann)
    assert set(SPACES) <= set(found)
    assert found["global"]["loaded"]
    assert not found["git"]["loaded"]
    assert (found["git.branch"]["parent"], found["git"]["children"]) == ("git", ["git.branch"])
    assert found["git"]["keywords"] == ["git"]
    assert found["requirement"]["keywords"] == ["requirement", "req", "spec"]
    assert found["requirement"]["name"] == "Requirement Management"
    assert found["requirement"]["tools"] == 4
    shown = ann.does("namespace show requirement")
    for words in ("Requirement Management", "req, spec", "requirement:create", "traceability"):
        assert words in shown
    examined = ann.does("examine requirement.traceability")
    assert "Parent: requirement" in examined
    assert ann.json("namespace list") == ann.json("namespaces")
    tree = ann.does("namespaces").splitlines()
    assert any("○    git.branch" in line for line in tree)
    assert any("○  git " in line for line in tree)


@covers("namespace new", "namespace set", "namespace remove")
def test_only_the_creator_may_change_a_namespace(ann: Person, house: Server) -> None:
    refused = ann.run("namespace set git description mine")
    assert refused.status == 1
    maker = house.owner.name
    assert f"needs the admin right on this server to change git. Ask {maker}" in " ".join(
        refused.err.split()
    )
    ann.does("namespace new own.inner about this", "namespace set own keywords a,b")
    assert listed(ann)["own.inner"]["description"] == "about this"
    ann.does("tool new own:thing = return 1", "namespace set own:thing required_states dry")
    ann.does("load own")
    assert "own:thing" not in tools(ann)
    ann.does("state add dry")
    assert "own:thing" in tools(ann)
    for wrong in (
        "namespace set own nothing x",
        "namespace set own auto_load maybe",
        "namespace new own",
        "namespace new Über",
        "namespace show nowhere",
        "namespace remove global",
        "namespace new lobby",
        "create git",
    ):
        assert ann.run(wrong).status != 0, wrong
    ann.does("namespace remove own")
    assert "own" not in listed(ann)


@covers("load", "unload")
def test_load_adds_tools_and_unload_removes_them(ann: Person) -> None:
    assert tools(ann) == set()
    said = ann.does("load requirement")
    assert "requirement" in said
    own = {f"requirement:{tool}" for tool in SPACES["requirement"]}
    assert tools(ann) == own
    assert "already" in ann.does("load requirement")
    assert ann.json("load requirement --include-children")["changed"] == [
        "requirement.traceability"
    ]
    assert tools(ann) == own | {
        f"requirement.traceability:{tool}" for tool in SPACES["requirement.traceability"]
    }
    ann.does("unload requirement --include-children")
    assert tools(ann) == set()
    ann.does("load requirement.traceability")
    assert not any(tool.startswith("requirement:") for tool in tools(ann))
    ann.does("unload requirement.traceability")
    assert "always loaded" in ann.does("unload global")
    assert "global:help" in {item["name"] for item in ann.json("inv")["equipped"]}
    unknown = ann.run("load requirment")
    assert unknown.status == 1
    assert "Unknown namespace requirment" in unknown.err
    assert ann.run("load").status == 2


@covers("load", "state add", "state remove", "state list")
def test_namespace_with_a_missing_state_cannot_be_loaded(ann: Person) -> None:
    assert (listed(ann)["deploy"]["available"], listed(ann)["deploy"]["missing"]) == (
        False,
        ["ci-configured"],
    )
    refused = ann.run("load deploy")
    assert refused.status == 1
    assert "requires the state ci-configured" in refused.err
    ann.does("state add ci-configured")
    assert listed(ann)["deploy"]["available"]
    ann.does("load deploy")
    assert tools(ann) == {"deploy:run"}
    ann.does("state remove ci-configured")
    assert tools(ann) == set()
    assert (ann.json("state list")["set"], ann.json("state list")["found"]) == ([], [])


@covers("namespace set", "load")
def test_child_namespace_can_load_with_its_parent(ann: Person, house: Server) -> None:
    house.owner.does("namespace set git.branch load_with_parent on")
    try:
        ann.does("load git")
        assert tools(ann) == {f"git:{tool}" for tool in SPACES["git"]} | {
            f"git.branch:{tool}" for tool in SPACES["git.branch"]
        }
    finally:
        house.owner.does("namespace set git.branch load_with_parent off")
    assert tools(ann) == {f"git:{tool}" for tool in SPACES["git"]}


@covers("namespace set", "unload")
def test_auto_loaded_namespace_is_available_to_everyone(ann: Person, house: Server) -> None:
    house.owner.does("namespace set deploy auto_load on", "namespace set deploy required_states -")
    try:
        assert "deploy:run" in tools(ann)
        assert "it is loaded everywhere: deploy:run" in ann.does("unload deploy")
        assert "deploy:run" in tools(ann)
        ann.does("unload deploy --off")
        assert "deploy:run" not in tools(ann)
    finally:
        house.owner.does(
            "namespace set deploy auto_load off",
            "namespace set deploy required_states ci-configured",
        )


def test_call_of_an_unloaded_tool_names_the_namespace_to_load(ann: Person) -> None:
    refused = ann.run("run git:commit")
    assert refused.status == 1
    assert "git:commit is not equipped here" in refused.err
    assert "/load git loads its namespace" in " ".join(refused.err.split())
    assert ann.json("history --tools")["entries"] == []


def test_loaded_namespaces_are_per_agent_and_persistent(
    ann: Person, house: Server, name: Any
) -> None:
    ann.does("load git")
    other = house.person(name("other"))
    assert tools(other) == set()
    other.hang_up()
    ann.hang_up()
    assert "git:commit" in tools(ann)
    ann.does("join lobby")
    assert "git:commit" in tools(ann)
    ann.does("unequip me git:commit")
    assert "git:commit" not in tools(ann)
    ann.does("equip me git:commit")
    assert "git:commit" in tools(ann)


@covers("load", "wrap")
def test_model_loads_a_namespace_and_uses_it_in_the_same_turn(
    ann: Person, house: Server, model: Model
) -> None:
    before = ann.json("wrap @qwen")
    index = {layer["name"]: layer["text"] for layer in before["layers"]}["namespaces"]
    assert "- git" in index
    assert "- global" not in index
    assert "Requirements and their lives" in index
    said = ann.does("@qwen use git")
    assert "it says: git status" in said
    names = [[tool["function"]["name"] for tool in asked["tools"]] for asked in model.asked[-3:]]
    assert "git__status" not in names[0]
    assert names[1][: len(names[0])] == names[0]
    assert "git__status" in names[1][len(names[0]) :]
    after = ann.json("wrap @qwen")
    assert after["tool_tokens"] > before["tool_tokens"]
    house.owner.does("unload git @qwen")
    assert ann.json("wrap @qwen")["tool_tokens"] == before["tool_tokens"]


@covers("find")
def test_find_suggests_a_namespace_for_a_task(ann: Person) -> None:
    found = ann.json("find I want to create a new requirement")["found"]
    assert found[0]["id"] == "requirement"
    assert found[0]["why"].startswith("keyword")
    assert ann.json("find GIT")["found"][0]["id"] == "git"
    alike = ann.json("find publish the changes to the server")["found"]
    assert all(0 <= one["score"] <= 1 for one in alike)
    assert [one["score"] for one in alike] == sorted((o["score"] for o in alike), reverse=True)
    assert set(SPACES) <= {one["id"] for one in ann.json("find")["found"]}
    assert "/load requirement" in ann.does("find a new requirement")
    by_chance = {one["id"]: one["score"] for one in ann.json("find frequent flyers")["found"]}
    assert by_chance.get("requirement", 0) < found[0]["score"] / 2, "they share letters, no word"


@covers("state directory")
def test_directory_of_a_room_decides_detected_states(
    ann: Person, house: Server, tmp_path: Any
) -> None:
    room = ann.json("state list")["room"]
    owner = house.owner
    assert ann.run(f"state directory {tmp_path}").status == 1
    stated = owner.does(f"state directory {tmp_path} --room {room}")
    assert stated == f"The directory of {room} is now {tmp_path}. Detected: project-loaded.\n"
    (tmp_path / ".git").mkdir()
    owner.does(f"state directory {tmp_path} --room {room}")
    assert ann.json("state list")["found"] == ["git-present", "project-loaded"]
    stated = owner.does(f"state directory {tmp_path}/nosuch --room {room}")
    assert stated.endswith("/nosuch. It does not exist on the server.\n")
    assert ann.json("state list")["found"] == []
    assert owner.does(f"state directory - --room {room}") == f"{room} has no directory now.\n"
    assert ann.json("state list")["found"] == []
