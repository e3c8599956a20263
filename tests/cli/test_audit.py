"""What `sshwarma audit --follow` asks for; `tests/wire` has real servers."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sshwarma.cli.invocation import Invocation
from sshwarma.cli.main import main
from sshwarma.common.limits import MAX_AUDIT_ROWS

ROW = {
    "n": 8, "at": "2026-01-31T12:00:00.000+00:00", "agent": "ann", "os_user": None,
    "room_id": None, "door": "ssh", "verb": "login", "request": "", "address": None,
    "fingerprint": None,
}  # fmt: skip


class EndOfTestError(Exception):
    """Ends a command that goes on for ever."""


def test_each_look_asks_for_the_wanted_rows_after_the_last_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the first look finds nothing, the next ones list no older rows."""
    asked: list[dict[str, Any]] = []
    answers: list[list[dict[str, Any]]] = [[], [], [ROW], []]

    def answer(invocation: Invocation, operation: str, **args: Any) -> list[dict[str, Any]]:
        asked.append(args)
        if not answers:
            raise EndOfTestError
        return answers.pop(0)

    monkeypatch.setattr(Invocation, "operate", answer)
    monkeypatch.setattr(Invocation, "ask_server", answer)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with pytest.raises(EndOfTestError):
        main(["audit", "--follow", "--agent", "ann", "--verb", "login", "--since", "2026-01-31"])
    wanted = {"name": "ann", "verb": "login", "since": 1769817600000}
    assert all(wanted.items() <= args.items() for args in asked)
    assert [args.get("after") for args in asked] == [None, 0, 0, 8, 8]
    assert capsys.readouterr().out == "2026-01-31T12:00:00Z  ssh  ann  -  login\n"


@pytest.mark.parametrize(("limit", "text"), [
    (1, "The newest row is shown; there may be older ones. --limit shows more.\n"),
    (2, "The newest 2 rows are shown; there may be older ones. --limit shows more.\n"),
    (MAX_AUDIT_ROWS, f"The newest {MAX_AUDIT_ROWS} rows are shown; there may be older ones. To find"
     " them, choose with --agent and --verb.\n"),
])  # fmt: skip
def test_rows_that_may_be_left_out_are_said_with_a_way_to_them(
    limit: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [ROW] * limit
    monkeypatch.setattr(Invocation, "operate", lambda *_, **__: found)
    assert main(["audit", "--limit", str(limit)]) == 0
    assert capsys.readouterr().err == text
    found = found[1:]
    assert main(["audit", "--limit", str(limit)]) == 0
    assert capsys.readouterr().err == ""
