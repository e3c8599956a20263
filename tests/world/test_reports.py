"""Questions in SQL: what they can see, and all that they must not be able to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.world import (
    report_access,
)
from sshwarma.world.errors import Forbidden, Invalid, Unavailable
from sshwarma.world.reports import Reports, ReportScope
from support.asking import READABLE, SECRET, Asking
from support.people import everything

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]


@pytest.mark.parametrize("name", READABLE)
async def test_readable_tables_reveal_no_secret(bobs: Asking, name: str) -> None:
    counted = int(str((await bobs.ask(f"SELECT count(*) FROM {name}")).rows[0][0]))
    found: list[tuple[Any, ...]] = []
    while len(found) < counted:
        page = (await bobs.ask(f"SELECT * FROM {name} LIMIT 100 OFFSET {len(found)}")).rows
        assert page
        found += page
    assert SECRET not in repr(found)
    assert len(found) == counted


async def test_test_data_contains_secrets_to_hide(bobs: Asking) -> None:
    seen = [
        await bobs.world.reports.run_query(f"SELECT * FROM {one}", bobs.admin) for one in READABLE
    ]
    assert repr(seen).count(SECRET) > 15


async def test_query_returns_only_rows_that_the_caller_may_see(bobs: Asking) -> None:
    spoken = "SELECT content FROM messages WHERE role = 'user' ORDER BY id"
    assert await bobs.column(spoken) == ["hello from the lobby", "for you two", "said in the den"]
    assert await bobs.column("SELECT name FROM chats ORDER BY name") == ["den", "home", "lobby"]
    assert await bobs.column("SELECT model FROM usage") == ["m"]
    mine = "SELECT content FROM things WHERE kind = 'data' AND content IS NOT NULL"
    assert await bobs.column(mine) == ["my own"]
    names = "SELECT name FROM things WHERE kind = 'agent' ORDER BY name"
    assert await bobs.column(names) == ["alice", "bob", "carol", "qwen"]
    servers = await bobs.ask("SELECT id, server_type, command, env FROM toolset_mcp_servers")
    assert servers.rows == (("srv", "stdio", None, None),)


async def test_admins_see_server_commands_but_no_secrets(bobs: Asking) -> None:
    query = "SELECT command, env, headers FROM toolset_mcp_servers"
    found = await bobs.world.reports.run_query(query, bobs.admin)
    ((command, env, headers),) = found.rows
    assert command == f"run-{SECRET}"
    assert [json.loads(str(one)) for one in (env, headers)] == [
        {"API_KEY": "…"}, {"Authorization": "…"},
    ]  # fmt: skip
    metadata = await bobs.world.reports.run_query(
        "SELECT metadata FROM things WHERE kind IN ('mcp', 'agent')", bobs.admin
    )
    assert '"token"' not in repr(metadata.rows) and '"aliases"' not in repr(metadata.rows)
    for table in ("agent_keys", "tokens", "audit", "input_lines", "invites"):
        with pytest.raises(Forbidden, match=table):
            await bobs.world.reports.run_query(f"SELECT * FROM {table}", bobs.admin)


FORBIDDEN = [
    # Tables that nobody reads here, by whatever way.
    *(f"SELECT * FROM {table}" for table in (
        "agent_keys", "tokens", "invites", "audit", "input_lines", "room_members", "row_tags",
        "alembic_version", "rows_indexed", "rows_fts", "rows_fts_data", "rows_fts_content",
        "main.agent_keys", "AGENT_KEYS", '"agent_keys"', "[agent_keys]", "`agent_keys`",
        "sqlite_master", "sqlite_schema", "temp.sqlite_master", "sqlite_temp_master",
        "main.sqlite_schema", "sqlite_sequence", "dbstat", "sqlite_stmt", "sqlite_dbpage",
        "pragma_table_info('agent_keys')", "pragma_database_list", "pragma_function_list",
        "fts5vocab",
    )),
    "SELECT count(*) FROM agent_keys",
    "SELECT 1 FROM agent_keys LIMIT 0",
    "SELECT name FROM tools WHERE EXISTS (SELECT 1 FROM tokens)",
    "SELECT * FROM messages ORDER BY (SELECT public_key FROM agent_keys)",
    "SELECT * FROM messages NATURAL JOIN audit",
    "SELECT 1 UNION ALL SELECT line FROM input_lines",
    "SELECT 1 WHERE 1 IN (SELECT agent_id FROM tokens)",
    "VALUES ((SELECT count(*) FROM audit))",
    "SELECT count(*) OVER (ORDER BY (SELECT max(n) FROM audit)) FROM tools",
    # The tables behind the gates.
    "SELECT content FROM main.rows",
    "SELECT count(*) FROM main.rows",
    "SELECT rowid FROM main.rows",
    "SELECT content FROM main.messages",
    "SELECT * FROM main.things",
    "SELECT * FROM rows UNION SELECT * FROM main.rows",
    "SELECT * FROM messages WHERE content IN (SELECT content FROM main.rows)",
    # Names that look like the gates' own.
    "WITH rows AS (SELECT * FROM main.rows) SELECT content FROM rows",
    "WITH messages AS (SELECT * FROM main.rows) SELECT content FROM messages",
    "WITH things(a) AS (SELECT public_key FROM agent_keys) SELECT a FROM things",
    "SELECT * FROM (SELECT * FROM main.rows) AS rows",
    "WITH \"rows \" AS (SELECT * FROM main.rows) SELECT * FROM \"rows \"",
    "WITH a AS MATERIALIZED (SELECT content FROM main.rows) SELECT * FROM a",
    "WITH RECURSIVE rows(c) AS (SELECT content FROM main.rows UNION SELECT c FROM rows)"
    " SELECT * FROM rows",
    # Functions.
    "SELECT load_extension('/tmp/x.so')",
    "SELECT fts5(1)",
    "SELECT highlight(content, 0, 'a', 'b') FROM rows",
    "SELECT randomblob(10)",
    "SELECT zeroblob(1000000000)",
    "SELECT sqlite_compileoption_get(1)",
    "SELECT last_insert_rowid(), total_changes()",
    "SELECT shown('{}')",
    "SELECT SHOWN(metadata) FROM things",
    # Writes that begin like questions.
    "WITH x AS (SELECT 1) DELETE FROM rows",
    "WITH x AS (SELECT 1) DELETE FROM main.rows",
    "WITH x AS (SELECT 1) INSERT INTO main.rows (id) SELECT * FROM x",
    "WITH x AS (SELECT 1) UPDATE main.things SET name = 'x'",
    "WITH x AS (SELECT 1) INSERT INTO temp.logs SELECT id FROM main.things",
    "WITH x AS (SELECT 'y') INSERT INTO logs SELECT * FROM x",
    "WITH x AS (SELECT 1) DELETE FROM temp.seen RETURNING id",
    "WITH x AS (SELECT 1) UPDATE temp.asker SET admin = 1",
]  # fmt: skip

WRONG = [
    # No question, or more than one.
    "", "   ", "-- only a remark", "/* only */", ";", ";;", "/* not closed", "\0", "SELECT 1\0",
    "SELECT 1; DROP TABLE rows", "SELECT 1; SELECT 2", "SELECT 1;; SELECT 2",
    "SELECT 1; ATTACH ':memory:' AS m",
    *("INSERT INTO rows DEFAULT VALUES", "UPDATE things SET name = 'x'", "DELETE FROM rows",
      "REPLACE INTO rows VALUES (1)", "CREATE TABLE x (y)", "CREATE TEMP TABLE x AS SELECT 1",
      "CREATE TEMP VIEW rows AS SELECT 1", "CREATE VIRTUAL TABLE x USING fts5(y)",
      "CREATE TRIGGER t AFTER INSERT ON rows BEGIN SELECT 1; END", "DROP TABLE rows",
      "DROP VIEW temp.rows", "ALTER TABLE rows RENAME TO r", "ATTACH '/etc/passwd' AS p",
      "ATTACH ':memory:' AS m", "DETACH main", "PRAGMA writable_schema = 1",
      "PRAGMA journal_mode = DELETE", "PRAGMA table_info(rows)", "PRAGMA temp_store_directory",
      "VACUUM", "VACUUM INTO '/tmp/copy.db'", "REINDEX", "ANALYZE", "BEGIN", "COMMIT", "ROLLBACK",
      "SAVEPOINT a", "RELEASE a", "EXPLAIN SELECT 1", "EXPLAIN QUERY PLAN SELECT 1",
      "/* SELECT */ DELETE FROM rows", "-- SELECT\nDELETE FROM rows", "(SELECT 1)", "selects"),
    # Words that mean nothing.
    "SELECT", "SELECT 1 FROM", "SELECT nothing FROM messages", "SELECT * FROM nothing",
    "SELECT name FORM tools", "SELECT readfile('/etc/passwd')", "SELECT writefile('/tmp/x', 1)",
    "SELECT edit('x')", "SELECT eval('DROP TABLE rows')", "SELECT fsdir('/')",
    "SELECT ?", "SELECT :a", "SELECT 'open", 'SELECT "open', "SELECT * FROM nowhere.rows",
    "SELECT sum() FROM rows WHERE", "SELECT json('{')", "SELECT abs(-9223372036854775808)",
    "SELECT " + ",".join("1" * 500),
    "SELECT char(" + ",".join(["65"] * 200) + ")",
]  # fmt: skip

TOO_DEEP = [  # for SQLite; PostgreSQL bounds the depth of its stack
    "SELECT " + "(" * 500 + "1" + ")" * 500,
    "SELECT " + "+".join("1" * 500),
    " UNION ".join(["SELECT 1"] * 200),
]


@pytest.mark.parametrize("sql", FORBIDDEN)
async def test_forbidden_queries_are_refused(bobs: Asking, sql: str) -> None:
    assert isinstance(await bobs.refused(sql), Forbidden | Invalid)


@pytest.mark.parametrize("sql", WRONG, ids=lambda sql: sql[:40])
async def test_invalid_queries_are_refused(bobs: Asking, sql: str) -> None:
    refusal = await bobs.refused(sql)
    assert isinstance(refusal, Invalid)
    if refusal.span is not None:
        start, end = refusal.span
        assert 0 <= start <= end <= len(sql)


@pytest.mark.sqlite
@pytest.mark.parametrize("sql", TOO_DEEP, ids=lambda sql: sql[:20])
async def test_queries_that_are_too_deep_are_refused(bobs: Asking, sql: str) -> None:
    assert isinstance(await bobs.refused(sql), Invalid)


async def test_refused_queries_change_nothing(bobs: Asking, store_name: str) -> None:
    def list_files() -> set[str]:
        if store_name != "sqlite":
            return set()
        return {path.name for path in bobs.world.store.path.parent.iterdir()}

    files = list_files()
    before = await everything(bobs.world)
    tries = [sql for sql in (*FORBIDDEN, *WRONG) if not sql.startswith("SELECT")]
    for sql in tries:
        await bobs.refused(sql)
    assert await everything(bobs.world) == before
    assert list_files() == files


def oracle(name: str, word: str) -> str:
    """An expression that fails if it ever sees the word in that column."""
    return f"json(CASE WHEN {name} LIKE '%{word}%' THEN '{{' ELSE '1' END)"


@pytest.mark.sqlite
@pytest.mark.parametrize("sql", [
    "SELECT 1 FROM rows WHERE {content}",
    "SELECT 1 FROM rows WHERE n > 0 AND {content}",
    "SELECT 1 FROM rows WHERE n IN (1,2,3,4,5,6,7,8,9) AND {content}",
    "SELECT 1 FROM rows WHERE room_id = 'x' OR {content}",
    "SELECT {content} FROM rows",
    "SELECT max({content}) FROM rows GROUP BY room_id",
    "SELECT 1 FROM rows ORDER BY {content}",
    "SELECT 1 FROM rows a CROSS JOIN rows WHERE a.n = rows.n AND {rows.content}",
    "SELECT 1 FROM json_each('[1,2,3,4,5,6]') j LEFT JOIN rows ON rows.n = j.value AND {content}",
    "SELECT 1 FROM messages WHERE {content}",
    "SELECT 1 FROM things WHERE {name}",
    "SELECT 1 FROM things WHERE kind = 'room' AND {name}",
    "SELECT 1 FROM things t JOIN things p ON p.id = t.parent_id WHERE {p.name}",
    "SELECT 1 FROM usage WHERE {model}",
    "SELECT 1 FROM tools WHERE {description}",
])  # fmt: skip
async def test_expressions_never_see_hidden_rows(bobs: Asking, sql: str) -> None:
    """Not even a WHERE that SQLite might look at before the gate sees hidden rows.

    An error there would tell what the row says, one character a question.
    """
    start, end = sql.index("{"), sql.index("}")
    expression = oracle(sql[start + 1 : end], SECRET)
    await bobs.ask(sql[:start] + expression + sql[end + 1 :])
    if "FROM rows" in sql or "FROM messages" in sql:  # it does fail on what bob may see
        seen = sql[:start] + oracle(sql[start + 1 : end], "lobby") + sql[end + 1 :]
        assert "JSON" in (await bobs.refused(seen)).message


@pytest.mark.sqlite
async def test_columns_of_hidden_rows_are_empty_without_the_filter(bobs: Asking) -> None:
    """A second line of defence: without the filter, hidden rows would have no words."""
    asked = {"path": str(bobs.world.store.path), "agent": bobs.scope.agent_id,
             "logs": bobs.scope.log_ids, "admin": False, "projects": ()}  # fmt: skip
    scope = report_access.RestrictedDatabase(asked)
    scope.database.set_authorizer(None)
    for table in report_access.TABLE_FILTERS:
        filtered = scope._filtered_select(table)
        unfiltered = filtered.removesuffix(f" WHERE {report_access.TABLE_FILTERS[table].condition}")
        assert unfiltered != filtered
        found = scope.database.execute(unfiltered).fetchall()
        assert SECRET not in repr(found), table
    assert len(scope.database.execute("SELECT * FROM main.rows").fetchall()) > 4
    scope.database.close()


@pytest.mark.sqlite
async def test_every_type_of_value_becomes_json(bobs: Asking) -> None:
    answer = await bobs.ask(
        "SELECT NULL, 1, 1.5, 'text', x'6162', 9e999, -9e999, CAST(x'ff41' AS TEXT), char(55296)"
    )
    assert answer.rows[0][:7] == (None, 1, 1.5, "text", "x'6162'", "inf", "-inf")
    json.dumps(answer.rows, allow_nan=False)
    assert all(isinstance(cell, str) and cell.encode() for cell in answer.rows[0][7:])


@pytest.mark.sqlite
async def test_ordinary_queries_are_answered(bobs: Asking) -> None:
    assert await bobs.column("-- a remark\n SELECT 1 /* and one */;") == [1]
    assert await bobs.column("select count(*) from (values (1), (2))") == [2]
    assert await bobs.column("WITH t(x) AS (VALUES (1), (2)) SELECT count(*) FROM t") == [2]
    assert await bobs.column("SELECT value FROM json_each('[1,2]')") == [1, 2]
    found = await bobs.column(
        "SELECT DISTINCT tree.value FROM tools, json_tree(json_schema) AS tree"
        " WHERE tools.name = 'sshwarma:look' AND tree.key = 'type' AND tree.path = '$'"
    )
    assert found == ["object"]
    assert await bobs.column(
        "SELECT row_number() OVER (ORDER BY id) FROM messages WHERE role = 'user'"
    ) == [1, 2, 3]
    joined = "SELECT group_concat(name, ' ') FROM (SELECT name FROM chats ORDER BY name)"
    assert await bobs.column(joined) == ["den home lobby"]


async def test_refusals_point_at_the_word_and_suggest_near_names(
    bobs: Asking, store_name: str
) -> None:
    forbidden = {"sqlite": "load_extension", "postgres": "pg_relation_size"}[store_name]
    for sql, word, words in (
        ("SELECT nam FROM tools", "nam", "Did you mean name"),
        ("SELECT name FROM tolls", "tolls", "Did you mean tools"),
        ("SELECT * FROM agent_keys", "agent_keys", "agent_keys is not readable"),
        ("SELECT * FROM main.rows", "rows", "rows can only be read by its own name"),
        (f"SELECT {forbidden}(1)", forbidden, f"{forbidden} is not allowed"),
        ("DELETE FROM rows", "DELETE", "SELECT, WITH or VALUES (got DELETE)"),
        ("SELECT a b c", "c", "syntax error at c"),
    ):
        refusal = await bobs.refused(sql)
        assert refusal.span is not None
        assert sql[slice(*refusal.span)] == word
        assert words in str(refusal)


async def test_invalid_database_file_is_reported(tmp_path: Path) -> None:
    broken = tmp_path / "world.db"
    broken.write_bytes(b"no database " * 100)
    with pytest.raises(Unavailable, match=INTERNAL_ERROR):
        await Reports(broken).run_query("SELECT 1", ReportScope("x", ()))
