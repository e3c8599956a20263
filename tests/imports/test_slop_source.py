"""Databases of std::slop as steps: their items, and why others are left out."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from sshwarma.common.limits import MAX_IMPORT_TEXT_BYTES, MAX_NOTES_CHARACTERS
from sshwarma.imports.items import RowItem
from sshwarma.imports.report import ImportReport
from sshwarma.imports.slop_calls import parse_calls
from sshwarma.imports.source import read_slop
from support.sources import make_slop


def read(file: Path) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Return the items of a database by kind, and the reasons by what is left out."""
    report = ImportReport()
    items: dict[str, list[Any]] = {}
    for step in read_slop(file, report):
        items.setdefault(step.kind, []).extend(step.items)
    left_out = report.as_json()["left_out"]
    return items, {f"{one['what']} {', '.join(one['names'])}": one["reason"] for one in left_out}


def change(file: Path, statement: str, *values: Any) -> None:
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA ignore_check_constraints=ON")
    connection.execute(statement, values)
    connection.commit()
    connection.close()


def test_messages_become_rows_in_turns(tmp_path: Path) -> None:
    items, left_out = read(make_slop(tmp_path / "slop.db"))
    rows: list[RowItem] = items["rows"]
    assert [(row.key, row.kind, row.author, row.group, row.is_dropped) for row in rows] == [
        ("1/0", "chat", "person", "g1", False),
        ("2/0", "chat", "model", "g1", False),
        ("2/1", "tool.call", "model", "g1", False),
        ("3/0", "tool.result", "model", "g1", False),
        ("4/0", "chat", "model", "g1", False),
        ("5/0", "chat", "person", "g2", True),
        ("6/0", "chat", "model", "g2", True),
        ("7/0", "chat", "person", "g3", False),
        ("8/0", "chat", "model", "g3", False),
        ("9/0", "chat", "person", "", False),
    ]
    assert [row.key for row in rows if row.begins_turn] == ["1/0", "5/0", "7/0"]
    assert (rows[2].tool, rows[2].content) == ("grep_tool", '{"pattern": "wall"}')
    assert (rows[3].tool, rows[3].call_key) == ("grep_tool", "2/1")
    assert rows[1].at - rows[0].at == 60_000
    rooms = {room.session: room.context_size for room in items["rooms"]}
    assert rooms == {"Garden Plan": 3, "empty": 5, "other": None}
    assert [one.text for one in items["notes"]] == ["Goal: walls"]
    assert [(one.model, one.prompt_tokens) for one in items["usage"]] == [("gpt", 100)]
    assert [(one.name, one.text) for one in items["skills"]] == [
        ("Wall Expert", "Know all about walls.")
    ]
    assert "no code to run here" in left_out["tools grep_tool"]


def test_messages_with_wrong_values_are_left_out_by_name(tmp_path: Path) -> None:
    file = make_slop(tmp_path / "slop.db")
    change(file, "UPDATE messages SET content = ? WHERE id = 1", "x" * (MAX_IMPORT_TEXT_BYTES + 1))
    change(file, "UPDATE messages SET content = CAST(? AS TEXT) WHERE id = 4", b"\xff\xfe")
    change(file, "UPDATE messages SET content = ? WHERE id = 5", b"bytes")
    change(file, "UPDATE messages SET role = 'pirate' WHERE id = 6")
    change(file, "UPDATE messages SET created_at = 'soon' WHERE id = 7")
    change(file, "UPDATE messages SET session_id = NULL WHERE id = 8")
    items, left_out = read(file)
    assert [row.key for row in items["rows"]] == ["2/0", "2/1", "3/0", "7/0", "9/0"]
    assert left_out["messages message 1"] == "longer than 1 MiB"
    assert left_out["messages message 4"] == "not UTF-8"
    assert left_out["messages message 5"] == "is a value of type blob, and not a text"
    assert left_out["messages message 6"].startswith("its role is not one of system, user")
    assert left_out["times message 7"].startswith("cannot be read")
    assert left_out["messages message 8"].startswith("the id of its session")


def test_wrong_values_of_other_tables_are_left_out(tmp_path: Path) -> None:
    file = make_slop(tmp_path / "slop.db")
    change(file, "UPDATE sessions SET context_size = 'many' WHERE id = 'empty'")
    change(file, "UPDATE session_state SET state_blob = ?", "n" * (MAX_NOTES_CHARACTERS + 1))
    change(file, "UPDATE usage SET prompt_tokens = -5")
    change(file, "UPDATE skills SET system_prompt_patch = ?", "s" * 40_000)
    change(file, "CREATE TABLE llm_memos (id INTEGER)")
    items, left_out = read(file)
    assert not {"notes", "usage", "skills"} & {*items}
    assert "default" in left_out["windows empty"]
    assert left_out["notes Garden Plan"] == f"longer than {MAX_NOTES_CHARACTERS:,} characters"
    assert "cannot be right" in left_out["usage rows Garden Plan/1"]
    assert left_out["skills Wall Expert"] == "longer than 32 KiB"
    assert "tables llm_memos" in left_out


def test_steps_are_bounded(tmp_path: Path) -> None:
    talk = [(n, "s", "user", "x" * 50_000, "", "completed", n, f"g{n}") for n in range(1, 30)]
    file = make_slop(tmp_path / "slop.db", talk)
    steps = [step for step in read_slop(file, ImportReport()) if step.kind == "rows"]
    assert sum(len(step.items) for step in steps) == 29
    assert max(len(step.items) for step in steps) == 5
    assert all([room.session for room in step.rooms] == ["s"] for step in steps)


def test_calls_are_found_in_the_forms_of_providers() -> None:
    gemini = '{"functionCall": {"name": "read_file", "args": {"path": "a"}}}'
    text, calls = parse_calls(gemini, "read_file")
    assert (text, [(one.tool, one.arguments) for one in calls]) == (
        "",
        [("read_file", '{"path": "a"}')],
    )
    for other in ("not JSON", "[" * 100_000, '{"tool_calls": 5}', "5", '{"tool_calls": []}'):
        text, calls = parse_calls(other, "c1|look")
        assert [(one.id, one.tool, one.arguments) for one in calls] == [("c1", "look", other)]
    function = '{"name": "read_file", "arguments": "{}"}'
    for content in (f'[{{"id": "c1", "type": "function", "function": {function}}}]', function):
        _, calls = parse_calls(content, "c1")
        assert [(one.tool, one.arguments) for one in calls] == [("read_file", "{}")], content
    _, calls = parse_calls('{"tool_calls": [{}, 5]}', "")
    assert [one.tool for one in calls] == ["unknown", "unknown"]


def test_result_has_the_name_of_the_tool_that_was_called(tmp_path: Path) -> None:
    call = {"id": "a1", "type": "function", "function": {"name": "grep_tool", "arguments": "{}"}}
    talk = [
        (1, "s", "assistant", json.dumps({"tool_calls": [call]}), "a1", "tool_call", 1, "g1"),
        (2, "s", "tool", "found", "a1", "completed", 2, "g1"),
    ]
    items, _ = read(make_slop(tmp_path / "slop.db", talk))
    assert [(row.kind, row.tool) for row in items["rows"]] == [
        ("tool.call", "grep_tool"),
        ("tool.result", "grep_tool"),
    ]


def test_calls_of_one_tool_side_by_side_have_their_own_results(tmp_path: Path) -> None:
    """Gemini gives calls no ids: they have the name of their tool."""
    parts = [{"functionCall": {"name": "read_file", "args": {"path": path}}} for path in "abc"]
    talk = [
        (1, "s", "assistant", json.dumps({"parts": parts}), "read_file", "tool_call", 1, "g1"),
        (2, "s", "tool", "text of a", "read_file", "completed", 2, "g1"),
        (3, "s", "tool", "not text", "read_file", "completed", 3, "g1"),
        (4, "s", "tool", "text of c", "read_file", "completed", 4, "g1"),
        (5, "s", "tool", "one too many", "read_file", "completed", 5, "g1"),
    ]
    file = make_slop(tmp_path / "slop.db", talk)
    change(file, "UPDATE messages SET content = ? WHERE id = 3", b"bytes")
    items, _ = read(file)
    keys = {row.key: row.content for row in items["rows"] if row.kind == "tool.call"}
    assert keys == {f"1/{n}": json.dumps({"path": path}) for n, path in enumerate("abc")}
    results = [row for row in items["rows"] if row.kind == "tool.result"]
    assert [(row.content, row.call_key) for row in results] == [
        ("text of a", "1/0"), ("text of c", "1/2"), ("one too many", "")
    ]  # fmt: skip
