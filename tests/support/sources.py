"""Sources of imports: databases of std::slop, bundles of Covalt, folders of SLBP."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SLOP_SCHEMA = """
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT,
    role TEXT CHECK(role IN ('system', 'user', 'assistant', 'tool')),
    content TEXT,
    tool_call_id TEXT,
    status TEXT DEFAULT 'completed',
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP,
    group_id TEXT
);
CREATE TABLE IF NOT EXISTS tools (
    name TEXT PRIMARY KEY, description TEXT, json_schema TEXT, is_enabled INTEGER DEFAULT 1
);
CREATE TABLE IF NOT EXISTS skills (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, description TEXT,
    system_prompt_patch TEXT
);
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, context_size INTEGER DEFAULT 5);
CREATE TABLE IF NOT EXISTS usage (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, model TEXT, prompt_tokens INTEGER,
    completion_tokens INTEGER, total_tokens INTEGER,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE IF NOT EXISTS session_state (
    session_id TEXT PRIMARY KEY, state_blob TEXT,
    last_updated TIMESTAMP DEFAULT CURRENT_TIMESTAMP
);
"""
"""The schema that the document of std::slop gives."""

CALL = json.dumps(
    {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "grep_tool", "arguments": '{"pattern": "wall"}'},
            }
        ],
    }
)
"""A message of a provider that is spoken to as OpenAI is."""

TALK = (
    # id, session, role, content, tool call, status, time, group
    (1, "Garden Plan", "user", "Where are the walls?", "", "completed", 0, "g1"),
    (2, "Garden Plan", "assistant", CALL, "call_1|grep_tool", "tool_call", 1, "g1"),
    (3, "Garden Plan", "tool", "plan.md: walls", "call_1|grep_tool", "completed", 2, "g1"),
    (4, "Garden Plan", "assistant", "They are in plan.md.", "", "completed", 3, "g1"),
    (5, "Garden Plan", "user", "Forget this.", "", "dropped", 4, "g2"),
    (6, "Garden Plan", "assistant", "I will.", "", "dropped", 5, "g2"),
    (7, "Garden Plan", "user", "Thanks.", "", "completed", 6, "g3"),
    (8, "Garden Plan", "assistant", "You are welcome.", "", "completed", 7, "g3"),
    (9, "other", "user", "A line of no group.", "", "completed", 8, None),
)


def make_slop(path: Path, talk: Iterable[tuple[Any, ...]] = TALK) -> Path:
    """Make a database of std::slop with two sessions, or with other messages."""
    connection = sqlite3.connect(path)
    connection.executescript(SLOP_SCHEMA)
    connection.execute("INSERT INTO sessions VALUES ('Garden Plan', 3), ('empty', 5)")
    add_messages(connection, talk)
    state = "---STATE---\nGoal: walls\n---END STATE---"
    connection.execute(
        "INSERT INTO session_state (session_id, state_blob) VALUES ('Garden Plan', ?)", (state,)
    )
    connection.execute(
        "INSERT INTO skills (name, description, system_prompt_patch)"
        " VALUES ('Wall Expert', 'walls', 'Know all about walls.')"
    )
    connection.execute("INSERT INTO tools VALUES ('grep_tool', 'greps', '{}', 1)")
    connection.execute(
        "INSERT INTO usage (session_id, model, prompt_tokens, completion_tokens, total_tokens,"
        " created_at) VALUES ('Garden Plan', 'gpt', 100, 20, 120, '2025-02-01 10:00:00')"
    )
    connection.commit()
    connection.close()
    return path


def add_messages(connection: sqlite3.Connection, talk: Iterable[tuple[Any, ...]]) -> None:
    """Add messages to a database of std::slop; the time is in minutes after ten."""
    connection.executemany(
        "INSERT INTO messages (id, session_id, role, content, tool_call_id, status, created_at,"
        " group_id) VALUES (?, ?, ?, ?, ?, ?, datetime('2025-02-01 10:00:00', ? || ' minutes'), ?)",
        talk,
    )
    connection.commit()


def make_slbp(folder: Path, values: Iterable[tuple[str, str, str]]) -> Path:
    """Make a folder of SLBP with a plugin and a dump of its memory."""
    plugin = folder / "tools" / "moltbook"
    plugin.mkdir(parents=True)
    (plugin / "__init__.py").write_text('TOOL_NAMESPACE = "moltbook"\n')
    (plugin / "post.py").write_text("DEFINITION = {}\n\ndef execute(args): ...\n")
    (plugin / "helpers.py").write_text("raise SystemExit('it was run')\n")
    rows = ",".join(f"({', '.join(map(quote_sql, one))})" for one in values)
    (folder / "project_memory.sql").write_text(
        "-- MySQL dump 10.13\n/*!40101 SET NAMES utf8 */;\n"
        "DROP TABLE IF EXISTS `project_memory`;\n"
        "CREATE TABLE `project_memory` (\n  `project` varchar(255) NOT NULL,\n"
        "  `memory_key` varchar(255) NOT NULL,\n  `value` longtext,\n"
        "  PRIMARY KEY (`project`,`memory_key`)\n) ENGINE=InnoDB;\n"
        "LOCK TABLES `project_memory` WRITE;\n"
        f"INSERT INTO `project_memory` VALUES {rows};\nUNLOCK TABLES;\n"
    )
    return folder


def quote_sql(text: str) -> str:
    """Write a text as MySQL does."""
    for sign, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\0", "\\0")):
        text = text.replace(sign, escaped)
    return f"'{text}'"


def hash_folder(folder: Path) -> dict[str, str]:
    """Every file of a folder with its time and a hash of its content."""
    return {
        str(path.relative_to(folder)): (
            f"{path.stat().st_mtime_ns} {hashlib.sha256(path.read_bytes()).hexdigest()}"
            if path.is_file()
            else "folder"
        )
        for path in (
            Path(top, name) for top, dirs, files in os.walk(folder) for name in [*dirs, *files]
        )
    }
