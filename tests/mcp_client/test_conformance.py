"""The hub against the official conformance suite: scenarios that ask its user.

`conformance_client.py --all` runs the others; these break when a question or a refusal is reworded.
"""

from __future__ import annotations

import pytest

from mcp_client.conformance_client import run_scenario


@pytest.mark.soak
@pytest.mark.parametrize(
    ("revision", "scenario"),
    [
        ("2025-11-25", "elicitation-sep1034-client-defaults"),
        ("2026-07-28", "auth/scope-step-up"),
    ],
)
def test_hub_passes_scenario_that_needs_reply(revision: str, scenario: str) -> None:
    assert run_scenario(revision, scenario) == ""
