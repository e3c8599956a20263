"""Built-in namespaces and tools are known by their names."""

from __future__ import annotations

import pytest

from sshwarma.world.builtin_containers import is_builtin_namespace, is_builtin_tool


@pytest.mark.parametrize(
    ("canonical", "expected"),
    [
        ("sshwarma:look", True),
        ("global:search", True),
        ("global.git:push", False),
        ("sshwarmas:look", False),
        ("internal:look", False),
        ("look", False),
    ],
)
def test_builtin_tool_is_known_by_its_whole_namespace(canonical: str, expected: bool) -> None:
    assert is_builtin_tool(canonical) is expected


def test_id_of_a_container_is_no_name_of_a_namespace() -> None:
    assert [is_builtin_namespace(name) for name in ("sshwarma", "internal")] == [True, False]
