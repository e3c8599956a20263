"""Render plans: expressions, their types, and what is data."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.limits import MAX_RENDER_PLAN_CHARACTERS
from sshwarma.toolsets.render_plan import (
    MAX_PROBLEMS,
    RenderContext,
    fill_defaults,
    make_render_plan,
)
from sshwarma.workspaces.tree import EMPTY_FOLDER, LINK_MODE, Entry

CONTEXT = RenderContext(chat_id="room-1", workspace="/ws", toolset="/ts")
ARGS: dict[str, Any] = {"path": "a.py", "n": 5, "deep": {"x": [10, {"y": None}]}, "a-b": 1}
RESULT: dict[str, Any] = {
    "port": 8080, "ok": True, "none": None, "rows": [{"id": 1}, {"id": 2}], "text": "hi",
    "0": "zero", "ratio": 0.5,
}  # fmt: skip


def data_of(expression: Any, args: Any = ARGS, result: Any = RESULT) -> tuple[Any, list[str]]:
    config = {"artifact": "x.html", "data": expression}
    plan = make_render_plan("html", config, args, result, CONTEXT)
    assert plan["renderer"] == "html" and plan["config"]["artifact"] == "x.html"
    assert set(plan) <= {"renderer", "config", "problems"}
    return plan["config"]["data"], plan.get("problems", [])


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("$args", ARGS),
        ("$args.path", "a.py"),
        ("$args.n", 5),
        ("$args.a-b", 1),
        ("$args.deep.x", [10, {"y": None}]),
        ("$args.deep.x.0", 10),
        ("$args.deep.x.1.y", None),
        ("$return", RESULT),
        ("$return.port", 8080),
        ("$return.ok", True),
        ("$return.none", None),
        ("$return.rows.1.id", 2),
        ("$return.0", "zero"),
        ("$chat_id", "room-1"),
        ("$workspace", "/ws"),
        ("$toolset", "/ts"),
        ("http://localhost:$return.port", "http://localhost:8080"),
        ("http://localhost:$return.port/x?y=$args.n", "http://localhost:8080/x?y=5"),
        ("$args.path.", "a.py."),
        ("$workspace/$args.path", "/ws/a.py"),
        ("out/$args.n.txt", "out/5.txt"),
        ("$args.n-$args.n", "5-5"),
        ("$return.ok and $return.none", "true and null"),
        ("$return.rows!", '[{"id":1},{"id":2}]!'),
        ("$return.ratio%", "0.5%"),
        ("$args.path$args.path", "a.pya.py"),
        (" $args.n", " 5"),
        ("costs $5", "costs $5"),
        ("$", "$"),
        ("$$", "$$"),
        ("", ""),
        (7, 7),
        (None, None),
        (["$args.n", {"k": "$return.port", "$args.n": "x"}], [5, {"k": 8080, "$args.n": "x"}]),
    ],
)
def test_expression_has_the_value_of_its_path(expression: Any, value: Any) -> None:
    found, problems = data_of(expression)
    assert found == value and type(found) is type(value)
    assert not problems


@pytest.mark.parametrize(
    ("expression", "value", "problem"),
    [
        ("$args.nothing", None, "data: $args.nothing has no part nothing"),
        ("$args.path.x", None, "data: $args.path.x has no part x"),
        ("$return.rows.2", None, "data: $return.rows.2 has no part 2"),
        ("$return.rows.-1", None, "has no part -1"),
        ("$return.rows.01", None, "has no part 01"),
        ("$return.rows.99999999999", None, "has no part 99999999999"),
        ("$return.rows.id", None, "has no part id"),
        ("$chat_id.x", None, "has no part x"),
        ("$retrun.port", None, "$retrun.port is unknown: expressions begin with $args, $return"),
        ("$argsx", None, "$argsx is unknown"),
        ("at $return.nothing", "at $return.nothing", "$return.nothing has no part nothing"),
        ("at $return.rows.5!", "at $return.rows.5!", "$return.rows.5 has no part 5"),
        ("$HOME/x", "$HOME/x", "$HOME is unknown"),
        ("$args.__class__", None, "has no part __class__"),
        (["$args.no"], [None], "data[0]: $args.no has no part"),
        ({"a": "$args.no"}, {"a": None}, "data.a: $args.no has no part"),
    ],
)
def test_unresolved_expression_is_reported(expression: Any, value: Any, problem: str) -> None:
    found, problems = data_of(expression)
    assert found == value
    assert len(problems) == 1 and problem in problems[0]


def test_value_without_context_is_reported() -> None:
    plan = make_render_plan("code", {"content": "$workspace"}, {}, None, RenderContext())
    assert plan["config"]["content"] is None
    assert plan["problems"] == ["content: $workspace has no value here"]


@pytest.mark.parametrize("result", [None, 5, "text", [1], True])
def test_result_of_any_type_is_whole(result: Any) -> None:
    assert data_of("$return", result=result) == (result, [])
    assert data_of("$return.x", result=result)[1]


def test_argument_that_looks_like_an_expression_is_data() -> None:
    args = {"path": "$return.text", "more": ["$args"], "$args": 1}
    assert data_of("$args.path", args) == ("$return.text", [])
    assert data_of("in $args.path", args) == ("in $return.text", [])
    assert data_of("$args", args) == (args, [])
    assert data_of("$return", args, {"x": "$nothing.y"}) == ({"x": "$nothing.y"}, [])


@given(st.dictionaries(st.text(max_size=6), st.text("$args.return\\g<0>1", max_size=20)))
def test_values_are_never_searched(args: dict[str, str]) -> None:
    config = {"content": "$args", "language": "x"}
    plan = make_render_plan("code", config, args, "$args", CONTEXT)
    assert plan["config"]["content"] == args and "problems" not in plan
    text = args.get("a", "$args.a")
    plan = make_render_plan("code", {"content": "<$args.a>"}, {"a": text}, None, CONTEXT)
    assert plan["config"]["content"] == f"<{text}>"


@pytest.mark.parametrize(
    ("renderer", "config", "whole"),
    [
        ("code", {"file": "a"}, {"file": "a", "language": "auto", "editable": False}),
        ("document", {"content": "a"}, {"content": "a", "editable": False}),
        ("html", {"artifact": "a"}, {"artifact": "a", "data": RESULT}),
        ("html", {"artifact": "a", "data": None}, {"artifact": "a", "data": None}),
        ("frame", {"port": "$return.port"}, {"port": 8080}),
    ],
)
def test_plan_has_the_keys_that_were_left_out(renderer: Any, config: Any, whole: Any) -> None:
    plan = make_render_plan(renderer, config, ARGS, RESULT, CONTEXT)
    assert plan == {"renderer": renderer, "config": whole}
    assert json.loads(json.dumps(plan)) == plan


def test_plan_is_not_longer_than_its_limit() -> None:
    result = "x" * (MAX_RENDER_PLAN_CHARACTERS // 4)
    config = {"artifact": "a", "data": ["$return", "and $return"] * 1_000}
    plan = make_render_plan("html", config, {}, result, CONTEXT)
    assert len(json.dumps(plan)) < MAX_RENDER_PLAN_CHARACTERS + 100_000
    assert plan["config"]["data"][0] == result
    assert plan["config"]["data"][-2:] == [None, "and $return"]
    assert len(plan["problems"]) == MAX_PROBLEMS
    assert "makes the plan longer than" in plan["problems"][0]


FILES = {
    "a.py": Entry("0" * 64),
    "docs/b.md": Entry("0" * 64),
    "hollow": EMPTY_FOLDER,
    "link": Entry("0" * 64, LINK_MODE),
}


@pytest.mark.parametrize(
    ("renderer", "key", "result", "shown"),
    [
        ("code", "file", "a.py", "a.py"),
        ("code", "file", "./a.py", "a.py"),
        ("code", "file", "/ws/docs/b.md", "docs/b.md"),
        ("frame", "port", 8080, 8080),
        ("frame", "port", "8080", 8080),
        ("frame", "url", "http://localhost:8080/x?y=1#z", "http://localhost:8080/x?y=1#z"),
        ("frame", "url", "https://[::1]/", "https://[::1]/"),
        ("frame", "url", "http://\u0430pple.com/\u0430", "http://xn--pple-43d.com/\u0430"),
        ("frame", "url", "http://fa\xdf.DE:80/?#", "http://xn--fa-hia.de:80/?#"),
        ("frame", "url", "http://\uff41.com/", "http://a.com/"),
    ],
)
def test_target_of_a_page_has_its_normal_form(
    renderer: Any, key: str, result: Any, shown: Any
) -> None:
    plan = make_render_plan(renderer, {key: "$return"}, {}, result, CONTEXT, FILES)
    assert plan["config"][key] == shown and "problems" not in plan


@pytest.mark.parametrize(
    ("renderer", "key", "result", "problem"),
    [
        ("code", "file", "gone.py", "file: gone.py is not a file of the room"),
        ("code", "file", "hollow", "file: hollow is not a file of the room"),
        ("code", "file", "link", "file: link is not a file of the room"),
        ("document", "file", "../a.py", "file: ../a.py must not leave the workspace (..)"),
        ("code", "file", "/etc/passwd", "file: /etc/passwd must be relative: it begins with /"),
        ("code", "file", ["a.py"], "file: ['a.py'] must be the path of a file"),
        ("code", "file", "", "must be the path of a file"),
        ("frame", "url", "javascript:alert(1)", "url: javascript:alert(1) must be the address of"),
        ("frame", "url", "data:text/html,x", "which begins with http:// or https://"),
        ("frame", "url", "file:///etc/passwd", "must be the address"),
        ("frame", "url", "//host/x", "must be the address"),
        ("frame", "url", "http:///x", "must be the address"),
        ("frame", "url", "http://[::1/", "must be the address"),
        ("frame", "url", "http://h:99999/", "must be the address"),
        ("frame", "url", "http://me:secret@h/", "must have no name and password"),
        ("frame", "url", "http://h/a b", "must have no blanks"),
        ("frame", "url", "http://[::1]evil.com/", "is no name of one"),
        ("frame", "url", "http://evil.com[::1]/", "is no name of one"),
        ("frame", "url", "http://evil.com;.localhost/", "is no name of one"),
        ("frame", "url", "http://*.localhost/", "is no name of one"),
        ("frame", "url", 'http://a"b.localhost/', "is no name of one"),
        ("frame", "url", "http://h\\@evil/", "must have no blanks, control characters or backsl"),
        ("frame", "url", "http://h/" + "x" * 2_048, "is longer than 2048 characters"),
        (
            "frame",
            "url",
            "http://\u2603.net/",
            "must have a host that exists: \u2603.net is no name",
        ),
        ("frame", "url", "http://\xe4..de/", "must have a host that exists"),
        ("frame", "url", "http://" + "\xe4" * 70 + ".de/", "must have a host that exists"),
        ("frame", "url", "http://%D0%B0pple.com/", "must have no % in its host"),
        ("frame", "url", 8080, "url: 8080 must be the address"),
        ("frame", "port", 0, "port: 0 must be a port from 1 to 65535"),
        ("frame", "port", "99999", "must be a port"),
        ("frame", "port", "x", "port: x must be a port"),
        ("frame", "port", True, "must be a port"),
        ("frame", "port", 80.5, "must be a port"),
    ],
)
def test_target_that_no_page_can_open_is_reported(
    renderer: Any, key: str, result: Any, problem: str
) -> None:
    plan = make_render_plan(renderer, {key: "$return"}, {}, result, CONTEXT, FILES)
    assert plan["config"][key] is None
    assert len(plan["problems"]) == 1 and problem in plan["problems"][0]


def test_password_in_an_address_is_not_repeated_in_the_report() -> None:
    plan = make_render_plan("frame", {"url": "$return"}, {}, "http://me:hunter2@h/", CONTEXT)
    assert "hunter2" not in json.dumps(plan)


WORDS: dict[str, Any] = {"ключ": {"имя": 5}, "कीमत": 7, "e\u0301": 8, "port": 80, "name": "Jo"}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("$return.ключ", {"имя": 5}),
        ("$return.ключ.имя", 5),
        ("$return.कीमत", 7),
        ("$return.e\u0301", 8),
        ("<$return.ключ.имя>", "<5>"),
        ("$return.कीमत!", "7!"),
        ("$return.ключ.имя—$return.port…", "5—80…"),
        ("$return.nameさん", "Joさん"),
        ("$return.name.ключ", None),
        ("x $return.name.ключ", "x Jo.ключ"),
        ("$return.name…", "Jo…"),
    ],
)
def test_name_of_letters_beyond_ascii_is_a_part(expression: str, value: Any) -> None:
    found, problems = data_of(expression, result=WORDS)
    assert found == value
    assert bool(problems) == (value is None)


@pytest.mark.parametrize("expression", ["$return.слово", "at $return.слово!", "$return.слово—"])
def test_missing_name_of_letters_beyond_ascii_is_reported(expression: str) -> None:
    _, problems = data_of(expression, result=WORDS)
    assert problems == ["data: $return.слово has no part слово"]


def test_defaults_of_parameters_stand_for_arguments_left_out() -> None:
    schema = {
        "properties": {
            "path": {"default": "out.txt"}, "n": {"default": 1}, "no": {"default": None},
            "must": {}, "any": True,
        }
    }  # fmt: skip
    assert fill_defaults(schema, {"n": 2}) == {"n": 2, "path": "out.txt", "no": None}
    assert fill_defaults({}, {"n": 2}) == {"n": 2}
    assert fill_defaults({"properties": []}, {}) == {}
