"""Names of secrets: one base for all checks, and more where one says why."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sshwarma.common.secret_detection import is_secret_name
from sshwarma.settings import McpSettings
from sshwarma.toolsets.manifest import ToolsetManifest
from sshwarma.toolsets.plain_values import is_plain_value
from sshwarma.toolsets.servers import read_servers
from sshwarma.world.errors import Invalid

EVERYWHERE = (
    "Authorization", "GITHUB_TOKEN", "client_secret", "DB_PASSWORD", "Cookie", "credentials",
    "X-Api-Key", "key", "KEY_FILE",
)  # fmt: skip
IN_ADDRESSES = ("pwd", "X-Amz-Signature", "apikey")
IN_ARCHIVES = ("SESSION_ID", "code", "salt", "USER_PASS", "keywords", "PIN", "jwt")
NOWHERE = ("author", "authors", "mode", "debug", "spin")


def is_refused_in_settings(name: str) -> bool:
    try:
        McpSettings.model_validate({"name": "x", "command": ["x"], "env": {name: "debug"}})
    except ValidationError:
        return True
    return False


def is_refused_in_addresses(name: str) -> bool:
    server = {"id": "x", "url": f"https://example.org/mcp?{name}=debug"}
    try:
        read_servers(
            ToolsetManifest.model_validate(
                {
                    "manifest_version": "1",
                    "id": "x",
                    "name": "x",
                    "version": "1.0.0",
                    "mcp_servers": [server],
                }
            )
        )
    except Invalid:
        return True
    return False


def is_left_out_of_archives(name: str) -> bool:
    return not is_plain_value("debug", name)


@pytest.mark.parametrize(
    ("names", "checks"),
    [(EVERYWHERE, 3), (IN_ADDRESSES, 2), (IN_ARCHIVES, 1), (NOWHERE, 0)],
)
def test_each_check_knows_the_names_of_the_narrower_ones(
    names: tuple[str, ...], checks: int
) -> None:
    for name in names:
        found = (
            is_left_out_of_archives(name),
            is_refused_in_addresses(name),
            is_refused_in_settings(name),
        )
        assert found == tuple(number < checks for number in range(3)), name
        assert is_secret_name(name) == (checks == 3)
