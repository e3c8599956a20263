"""Flags that belong to a command over ssh, and text that only looks like them."""

from __future__ import annotations

from typing import Any

import pytest

from sshwarma.ssh.door.exec import ExecHandler


class Flags(ExecHandler):
    """A handler that runs nothing."""

    def __init__(self) -> None:
        self._json = self._waits = False
        self._once = ""

    def read(self, command: str) -> tuple[str, str, bool, bool]:
        line, room = self._door_flags(command)
        return line, room, self._json, self._waits


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("inv --json", ("inv", "", True, False)),
        ("inv --json all", ("inv all", "", True, False)),
        ("--json inv all", ("inv all", "", True, False)),
        ("history --room den --n 5", ("history --n 5", "den", False, False)),
        ("say hi --room den", ("say hi", "den", False, False)),
        ("say hi --json --room=den", ("say hi", "den", True, False)),
        ("say --stdin --room den look", ("say look", "den", False, True)),
        ("say hi --room", ("say hi --room", "", False, False)),
        ("say --room den", ("say", "den", False, False)),
        ("say --once k hi", ("say hi", "", False, False)),
        ("say hi --once=k --json", ("say hi", "", True, False)),
        ("say hi --once k there", ("say hi --once k there", "", False, False)),
        ("say --json=1 x", ("say --json=1 x", "", False, False)),
        ("say hello --json there", ("say hello --json there", "", False, False)),
        ("say go to --room den now", ("say go to --room den now", "", False, False)),
        ("@qwen what is --json for?", ("@qwen what is --json for?", "", False, False)),
        ("put zz --room den = hello", ("put zz = hello", "den", False, False)),
        ("put --json zz --room=den hello", ("put zz hello", "den", True, False)),
        ("put zz --room den", ("put zz", "den", False, False)),
        ("put zz = --room den x", ("put zz = --room den x", "", False, False)),
        ("put zz -- --room den x", ("put zz -- --room den x", "", False, False)),
        ("put zz --room den -- --json x", ("put zz -- --json x", "den", False, False)),
        ("put zz x --json y", ("put zz x --json y", "", False, False)),
        ("tool new --room den x = y", ("tool new x = y", "den", False, False)),
        ("tool --room den new x --json = y", ("tool new x = y", "den", True, False)),
        ("alias g --json = /look --room den x", ("alias g = /look --room den x", "", True, False)),
        (
            "skill new x --description 'a --json b' --room den = be brief",
            ("skill new x --description 'a --json b' = be brief", "den", False, False),
        ),
        (
            "skill new x --room den --description=b = be --json brief",
            ("skill new x --description=b = be --json brief", "den", False, False),
        ),
        (
            "mcp add x --room den -- /bin/echo --json --room lobby",
            ("mcp add x -- /bin/echo --json --room lobby", "den", False, False),
        ),
    ],
)
def test_flags_are_read_around_the_text_but_not_inside_it(command: str, expected: Any) -> None:
    assert Flags().read(command) == expected


def test_flags_are_parsed_in_linear_time() -> None:
    # Looking for the last flag again and again took 9 s of the whole server for 64 KiB.
    many = " --json" * 200_000
    assert Flags().read(f"say x{many}") == ("say x", "", True, False)
    assert Flags().read(f"say x{many} y") == (f"say x{many} y", "", False, False)
    assert Flags().read(f"say{many} x --room den") == ("say x", "den", True, False)
    assert Flags().read(f"look{many}") == ("look", "", True, False)
