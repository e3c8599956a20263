"""Ids of toolsets, tools and servers: one rule each, in refusals and docs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sshwarma.settings.section import NAME_RULE
from sshwarma.toolsets.manifest import TOOL_ID_RULE
from sshwarma.toolsets.manifest_reading import check_manifest
from toolsets.manifests import refusal_of, with_value

BAD_IDS = (
    "", "A", "Demo", "a.b", "a/b", "a\\b", "../a", "a:b", "~a", "-a", "_a", "a b", "a\n", "é",
    "a" * 65, 5, None, True, ["a"],
)  # fmt: skip
RULES = {"id": NAME_RULE, "tools.0.id": TOOL_ID_RULE, "mcp_servers.0.id": NAME_RULE}


@pytest.mark.parametrize("path", ["id", "tools.0.id", "mcp_servers.0.id"])
@pytest.mark.parametrize("value", BAD_IDS, ids=repr)
def test_unsafe_id_is_refused(path: str, value: object) -> None:
    named = path.replace(".0", "[0]")
    assert f"toolset.yaml: {named}: must " in refusal_of(with_value(path, value))


@pytest.mark.parametrize("value", ["a", "0", "a-b_c", "a" * 64])
def test_safe_id_is_accepted(value: str) -> None:
    assert check_manifest(with_value("tools.1.id", value) | {"tool_overrides": []}).tools[1].id


@pytest.mark.parametrize("path", ["id", "mcp_servers.1.id"])
@pytest.mark.parametrize("value", ["1ab", "0", "a" * 33])
def test_id_that_no_namespace_can_have_is_refused_by_the_manifest(path: str, value: str) -> None:
    assert f"{path.replace('.1', '[1]')}: must be " in refusal_of(with_value(path, value))


@pytest.mark.parametrize("path", RULES)
def test_rule_of_each_kind_of_id_is_the_same_in_refusal_and_docs(path: str) -> None:
    refusal = refusal_of(with_value(path, "a.b"))
    assert f"{path.replace('.0', '[0]')}: must be {RULES[path]} (got a.b) (line 1)" in refusal
    page = (Path(__file__).parents[2] / "docs" / "toolsets.md").read_text()
    assert f" is {RULES[path]}.\n" in page
