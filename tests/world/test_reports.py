"""Questions in SQL: what they can see, and everything that they must not be able to do."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import insert

from sshwarma.common.limits import (
    MAX_REPORT_CELL_CHARACTERS,
    MAX_REPORT_CHARACTERS,
    MAX_REPORT_ROWS,
    REPORT_TIMEOUT_SECONDS,
)
from sshwarma.world import (
    agents,
    equipment,
    input_history,
    private_messages,
    report_access,
    reports,
    rooms,
    rows,
    things,
    tokens,
    usage,
)
from sshwarma.world.access import set_member
from sshwarma.world.errors import Forbidden, Invalid, Unavailable, WorldError
from sshwarma.world.reports import ReportResult, Reports, ReportScope
from sshwarma.world.schema import tool_calls, toolset_files
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.people import arrive, do, everything, opened

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

SECRET = "sesame"
"""Whatever bob must not see has this word in it."""


@dataclass
class Asking:
    """Bob, who may enter the lobby and his den, and asks about a world full of secrets."""

    world: World
    scope: ReportScope
    admin: ReportScope

    async def ask(self, sql: str) -> ReportResult:
        return await self.world.reports.run_query(sql, self.scope)

    async def column(self, sql: str) -> list[Any]:
        return [row[0] for row in (await self.ask(sql)).rows]

    async def refused(self, sql: str) -> WorldError:
        with pytest.raises(WorldError) as caught:
            await self.ask(sql)
        assert SECRET not in str(caught.value)
        assert caught.value.message.endswith((".", "?")), caught.value.message
        return caught.value


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bobs(newborn: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Asking]:
    """Bob, in a world that all tests here only read."""
    path = shutil.copyfile(newborn, tmp_path_factory.mktemp("asked") / "world.db")
    async with opened(Path(path)) as world:
        yield await keep_secrets(world)


@pytest_asyncio.fixture(loop_scope="module")
async def own_bobs(world_file: Path) -> AsyncIterator[Asking]:
    """Bob, in a world of the test's own."""
    async with opened(world_file) as world:
        yield await keep_secrets(world)


async def keep_secrets(world: World) -> Asking:
    """Fill a new world with secrets that bob must not see."""
    alice, bob = await arrive(world, "alice", role="owner"), await arrive(world, "bob")
    qwen = await arrive(world, "qwen", kind="model", door="model")
    carol = await arrive(world, "carol")
    await do(alice, "hello from the lobby")
    await do(bob, "/tell alice for you two")
    await do(alice, f"/tell carol {SECRET} told")
    await do(carol, f"/alias {SECRET} = /who")
    await do(carol, f"/put me:{SECRET} = {SECRET} in a bag")
    await do(bob, "/put me:mine = my own")

    def fill(tx: Change) -> dict[str, str]:
        owner = alice.agent
        vault = rooms.create_room(tx, f"{SECRET}-vault", owner, description=SECRET).id
        things.set_metadata(tx, vault, access="private")
        den = rooms.create_room(tx, "den", owner).id
        for room in (vault, den):
            set_member(tx, room, owner.id, created_by=None, role="owner")
        row = rows.append_row(tx, vault, "chat", f"{SECRET} said", author_id=owner.id)
        rows.append_row(tx, den, "chat", "said in the den", author_id=bob.id)
        things.create_thing(tx, vault, "data", SECRET, content=SECRET)
        states = things.create_thing(tx, vault, "container", "states")
        things.create_thing(
            tx, states.id, "data", "qwen", content=SECRET, metadata={"role": "state"}
        )
        things.create_thing(tx, vault, "tool", SECRET, qualified_name=f"vault:{SECRET}",
                      description=SECRET, metadata={"input_schema": {"title": SECRET}})  # fmt: skip
        tx.conn.execute(insert(tool_calls).values(
            id=row.id, room_id=vault, tool_id=SECRET, args=SECRET, status="success",
            started_at="2026-01-01",
        ))  # fmt: skip
        usage.record_usage(tx, vault, qwen.id, None, SECRET, usage.TokenUsage(1, 1))
        usage.record_usage(tx, "lobby", qwen.id, None, "m", usage.TokenUsage(3, 4))
        kit = things.create_thing(tx, "toolsets", "toolset", "kit", qualified_name="kit",
                            metadata={"source_ref": f"https://{SECRET}@host/"})  # fmt: skip
        things.create_thing(tx, kit.id, "mcp", "srv", metadata={
            "server_type": "stdio", "command": f"run-{SECRET}", "args": [SECRET],
            "env": {"API_KEY": SECRET}, "headers": {"Authorization": SECRET}, "token": SECRET,
            "url": f"https://host/?key={SECRET}",
        })  # fmt: skip
        tx.conn.execute(insert(toolset_files).values(
            toolset_id="kit", path="a.py", kind="python", sha256="0", size=1, stored_path=SECRET,
        ))  # fmt: skip
        things.set_metadata(tx, qwen.id, base_url=SECRET, aliases={SECRET: SECRET})
        agents.add_key(tx, carol.id, "SHA256:x", f"ssh-ed25519 {SECRET}", SECRET)
        tokens.issue_token(tx, carol.id, SECRET, None, None)
        equipment.equip_things(tx, carol.id, [things.get_live_thing(tx.conn, "tool_look")])
        return {"den": den, "vault": vault}

    made = await world.change(fill)
    await world.store.write(
        lambda tx: input_history.append_input_history(tx, [(carol.id, f"say {SECRET}")])
    )
    logs = await world.store.read(lambda conn: private_messages.read_private_logs(conn, bob.id))
    assert len(logs) == 1
    may_read = ("lobby", "home", made["den"], *logs)
    everyone = (*may_read, made["vault"])
    return Asking(
        world, ReportScope(bob.id, may_read), ReportScope(alice.id, everyone, is_admin=True)
    )


READABLE = (
    "messages", "tools", "skills", "sessions", "session_state", "chats", "toolsets",
    "toolset_mcp_servers", "projects", "project_memory", "usage", "tool_calls", "turns", "rows",
    "things", "equipped", "exits", "tool_overrides", "toolset_files", "workspace_manifests",
)  # fmt: skip


@pytest.mark.parametrize("name", READABLE)
async def test_readable_tables_reveal_no_secret(bobs: Asking, name: str) -> None:
    answer = await bobs.ask(f"SELECT * FROM {name}")
    assert answer.more == 0
    assert SECRET not in repr(answer.rows)
    counted = (await bobs.ask(f"SELECT count(*) FROM {name}")).rows[0][0]
    assert counted == len(answer.rows)


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


async def test_admins_see_server_commands_but_no_secrets(
    bobs: Asking,
) -> None:
    query = "SELECT command, env, headers FROM toolset_mcp_servers"
    found = await bobs.world.reports.run_query(query, bobs.admin)
    assert found.rows == ((f"run-{SECRET}", '{"API_KEY":"…"}', '{"Authorization":"…"}'),)
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
    "SELECT " + "(" * 500 + "1" + ")" * 500,
    "SELECT " + "+".join("1" * 500),
    "SELECT " + ",".join("1" * 500),
    " UNION ".join(["SELECT 1"] * 200),
    "SELECT char(" + ",".join(["65"] * 200) + ")",
]  # fmt: skip

ENDLESS = [
    "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t",
    "SELECT count(*) FROM things a, things b, things c, things d, things e",
    # One function that no handler inside SQLite can end.
    "SELECT length(replace(printf('%.*c', 4000000, 'a'), printf('%.*c', 2000000, 'a') || 'b', ''))",
]

TOO_BIG = [
    "SELECT printf('%.*c', 8000000, 'x') || printf('%.*c', 8000000, 'x')",
    "SELECT replace(hex(printf('%.*c', 3000000, 'x')), '7', printf('%.*c', 1000, 'x'))",
]

TOO_MUCH = [
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t)"
    " SELECT json_group_array(printf('%.*c', 100000, 'x')) FROM t",
    "WITH RECURSIVE t(n, x) AS (SELECT 1, printf('%.*c', 4000000, 'x') UNION ALL"
    " SELECT n + 1, x || n FROM t) SELECT count(DISTINCT x) FROM t",
    "SELECT x FROM (WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t)"
    " SELECT n, printf('%.*c', 2000000, n) AS x FROM t) ORDER BY x",
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


async def test_refused_queries_change_nothing(bobs: Asking) -> None:
    files = {path.name for path in bobs.world.store.path.parent.iterdir()}
    before = await everything(bobs.world)
    tries = [sql for sql in (*FORBIDDEN, *WRONG) if not sql.startswith("SELECT")]
    for sql in tries:
        await bobs.refused(sql)
    assert await everything(bobs.world) == before
    assert {path.name for path in bobs.world.store.path.parent.iterdir()} == files


@pytest.mark.parametrize("sql", ENDLESS)
async def test_endless_query_times_out(bobs: Asking, sql: str) -> None:
    started = time.monotonic()
    refusal = await bobs.refused(sql)
    assert "timed out after 2 s" in refusal.message
    assert (
        REPORT_TIMEOUT_SECONDS <= time.monotonic() - started < reports.PROCESS_TIMEOUT_SECONDS + 10
    )


@pytest.mark.parametrize("sql", TOO_BIG)
async def test_value_over_the_size_limit_is_refused(bobs: Asking, sql: str) -> None:
    assert "exceeds 8 MiB" in (await bobs.refused(sql)).message


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system bounds no memory")
@pytest.mark.parametrize("sql", TOO_MUCH)
async def test_query_over_the_memory_limit_is_refused(
    bobs: Asking, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine takes longer than the limit to fill the memory.
    monkeypatch.setattr(reports, "REPORT_TIMEOUT_SECONDS", 60)
    monkeypatch.setattr(reports, "PROCESS_TIMEOUT_SECONDS", 90)
    assert "exceeded 128 MiB of memory" in (await bobs.refused(sql)).message


def oracle(name: str, word: str) -> str:
    """An expression that fails if it ever sees the word in that column."""
    return f"json(CASE WHEN {name} LIKE '%{word}%' THEN '{{' ELSE '1' END)"


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
    """Not even in a WHERE that SQLite might look at before it looks at the gate: an error there
    would tell what the row says, one character a question."""
    start, end = sql.index("{"), sql.index("}")
    expression = oracle(sql[start + 1 : end], SECRET)
    await bobs.ask(sql[:start] + expression + sql[end + 1 :])
    if "FROM rows" in sql or "FROM messages" in sql:  # it does fail on what bob may see
        seen = sql[:start] + oracle(sql[start + 1 : end], "lobby") + sql[end + 1 :]
        assert "JSON" in (await bobs.refused(seen)).message


async def test_columns_of_hidden_rows_are_empty_without_the_filter(bobs: Asking) -> None:
    """The second line behind the filter: without the filter, hidden rows would have no words."""
    asked = {"path": str(bobs.world.store.path), "agent": bobs.scope.agent_id,
             "logs": bobs.scope.log_ids, "admin": False}  # fmt: skip
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


async def test_rows_cells_and_size_are_capped_and_reported(bobs: Asking) -> None:
    numbers = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t LIMIT {}) "
    answer = await bobs.ask(numbers.format(250) + "SELECT x FROM t")
    assert (len(answer.rows), answer.more, answer.uncounted) == (MAX_REPORT_ROWS, 50, False)
    answer = await bobs.ask(numbers.format(10**9) + "SELECT x FROM t")
    assert len(answer.rows) == MAX_REPORT_ROWS and answer.uncounted
    answer = await bobs.ask("SELECT printf('%.*c', 5000, 'x'), 'short', x'00ff'")
    long, short, blob = answer.rows[0]
    assert isinstance(long, str) and len(long) == MAX_REPORT_CELL_CHARACTERS and long.endswith("…")
    assert (short, blob, answer.cut_cells) == ("short", "x'00ff'", 1)
    answer = await bobs.ask(numbers.format(150) + "SELECT printf('%.*c', 900, 'x') FROM t")
    assert sum(len(str(cell)) for row in answer.rows for cell in row) <= MAX_REPORT_CHARACTERS
    assert len(answer.rows) + answer.more == 150 and answer.more > 50
    answer = await bobs.ask("SELECT 1 AS " + "c" * 500)
    assert len(answer.columns[0]) == 60


async def test_every_type_of_value_becomes_json(bobs: Asking) -> None:
    answer = await bobs.ask(
        "SELECT NULL, 1, 1.5, 'text', x'6162', 9e999, -9e999, CAST(x'ff41' AS TEXT), char(55296)"
    )
    assert answer.rows[0][:7] == (None, 1, 1.5, "text", "x'6162'", "inf", "-inf")
    json.dumps(answer.rows, allow_nan=False)
    assert all(isinstance(cell, str) and cell.encode() for cell in answer.rows[0][7:])


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


async def test_refusals_point_at_the_word_and_suggest_near_names(bobs: Asking) -> None:
    for sql, word, words in (
        ("SELECT nam FROM tools", "nam", "Did you mean name"),
        ("SELECT name FROM tolls", "tolls", "Did you mean tools"),
        ("SELECT * FROM agent_keys", "agent_keys", "agent_keys is not readable"),
        ("SELECT * FROM main.rows", "rows", "rows can only be read by its own name"),
        ("SELECT load_extension(1)", "load_extension", "load_extension is not allowed"),
        ("DELETE FROM rows", "DELETE", "SELECT, WITH or VALUES (got DELETE)"),
        ("SELECT a b c", "c", "syntax error at c"),
    ):
        refusal = await bobs.refused(sql)
        assert refusal.span is not None
        assert sql[slice(*refusal.span)] == word
        assert words in str(refusal)


async def test_running_and_waiting_queries_are_limited(
    own_bobs: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    bobs = own_bobs
    monkeypatch.setattr(reports, "MAX_WAITING_REPORTS", 3)
    slow = [asyncio.create_task(bobs.refused(ENDLESS[0])) for _ in range(3)]
    await until(lambda: bobs.world.reports._waiting == 3)
    with pytest.raises(Unavailable, match="3 questions are waiting"):
        await bobs.ask("SELECT 1")
    await do_meanwhile(bobs.world)
    assert not any(asking.done() for asking in slow), "the world waited for them"
    for refusal in await asyncio.gather(*slow):
        assert "timed out after" in refusal.message
    assert await bobs.column("SELECT 1") == [1]


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - there is nothing to wait on
        await asyncio.sleep(0.01)


async def do_meanwhile(world: World) -> None:
    """The world answers while questions run."""
    await world.change(
        lambda tx: rows.append_row(tx, "lobby", "chat", "still here", author_id=None)
    )


async def test_cancelled_query_ends_its_process(bobs: Asking) -> None:
    asking = asyncio.create_task(bobs.ask(ENDLESS[0]))
    await until(lambda: bool(bobs.world.reports._running))
    (process,) = bobs.world.reports._running
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert process.returncode is not None
    assert not bobs.world.reports._running


async def test_closing_the_world_ends_running_queries(newborn: Path) -> None:
    asked = Reports(newborn)
    asking = asyncio.create_task(asked.run_query(ENDLESS[0], ReportScope("x", ())))
    await until(lambda: bool(asked._running))
    await asked.close()
    with pytest.raises(Unavailable, match="was stopped before it had an answer"):
        await asking


async def test_invalid_database_file_is_reported(tmp_path: Path) -> None:
    broken = tmp_path / "world.db"
    broken.write_bytes(b"no database " * 100)
    with pytest.raises(Unavailable, match="The query failed"):
        await Reports(broken).run_query("SELECT 1", ReportScope("x", ()))
