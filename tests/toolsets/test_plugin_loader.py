"""The loader of plugins in a worker: arguments, approval and memory of tools."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "embedded" / "toolset" / "plugin_loader.py"


@pytest.fixture(scope="module")
def loader() -> ModuleType:
    """The module is not part of the package: it is mounted into sandboxes."""
    spec = importlib.util.spec_from_file_location("plugin_loader", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def only_args(args: Any) -> None: ...
def two(args: Any, session_data: Any) -> None: ...
def any_two(a: Any, b: Any = None) -> None: ...
def three(args: Any, session_data: Any, special_resources: Any = None) -> None: ...
def own_third(args: Any, session_data: Any, retries: int = 3) -> None: ...
def by_name(args: Any, *, session_data: Any, timeout: int = 3) -> None: ...
def starred(*args: Any, **more: Any) -> None: ...
def all_by_name(*, args: Any, session_data: Any) -> None: ...
def any_by_name(**more: Any) -> None: ...
def nothing() -> None: ...


@pytest.mark.parametrize(
    ("function", "given", "named"),
    [
        (only_args, ["A"], {}),
        (two, ["A", "S"], {}),
        (any_two, ["A", "S"], {}),
        (three, ["A", "S", "R"], {}),
        (own_third, ["A", "S"], {}),
        (by_name, ["A"], {"session_data": "S"}),
        (starred, ["A", "S"], {}),
        (all_by_name, [], {"args": "A", "session_data": "S"}),
        (any_by_name, [], {"args": "A", "session_data": "S"}),
        (nothing, [], {}),
    ],
)
def test_execute_gets_what_its_parameters_ask_for(
    loader: ModuleType, function: Callable[..., Any], given: list[str], named: dict[str, str]
) -> None:
    assert loader.bind_arguments(function, "A", "S", "R") == (given, named)


def never(args: Any) -> bool:
    if args:
        return False
    return None  # type: ignore[return-value]


def sometimes(args: Any) -> bool:
    return bool(args)


def always(args: Any) -> bool:
    return True


def yields(args: Any) -> Any:
    yield False


class Unknown:
    def __bool__(self) -> bool:
        raise ValueError


@pytest.mark.parametrize(
    ("function", "may"),
    [(never, False), (sometimes, True), (always, True), (yields, True), (lambda args: False, True),
     (None, False), (bool, True), (True, True), ("yes", True), (False, False), (Unknown(), True)],
)  # fmt: skip
def test_approval_is_needed_unless_each_return_is_a_false_constant(
    loader: ModuleType, function: object, may: bool
) -> None:
    assert loader.may_be_true(function) is may


def test_memory_takes_text_alone_and_tells_what_changed(loader: ModuleType) -> None:
    before = {"stays": "1", "goes": "2", "changes": "3"}
    memory = loader.SessionMemory(before)
    with pytest.raises(TypeError, match="a value is int"):
        memory["number"] = 7
    memory["changes"] = "4"
    memory["comes"] = "5"
    del memory["goes"]
    assert loader.list_changes(before, {"memory": memory}) == {
        "set": {"changes": "4", "comes": "5"}, "delete": ["goes"],
    }  # fmt: skip
    assert loader.list_changes(before, {"memory": {"new": "x"}})["delete"] == list(before)
    for wrong in ({"memory": {"a": 1}}, {"memory": "text"}, {}, None):
        with pytest.raises(TypeError):
            loader.list_changes(before, wrong)
