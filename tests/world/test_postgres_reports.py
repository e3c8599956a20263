"""Questions in SQL on PostgreSQL: its own attacks, and what the role can do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import errors
from structlog.testing import capture_logs

from sshwarma.verbs.registry import tool_specs
from sshwarma.world import report_access
from sshwarma.world.databases import DatabaseUrl
from sshwarma.world.errors import Forbidden, Invalid, Unavailable
from sshwarma.world.reports import ReportScope
from sshwarma.world.world import World
from support.asking import READABLE, SECRET, Asking
from support.people import everything, opened
from support.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]


def address_of(world: World) -> str:
    return world.store.dialect.place


def as_owner(world: World, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(address_of(world), autocommit=True) as conn:
        cursor = conn.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@contextmanager
def as_asker(world: World) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the role that asks, without any check of ours before it."""
    ((role, password),) = as_owner(world, "SELECT role, password FROM report.login")
    with psycopg.connect(address_of(world), user=role, password=password, autocommit=True) as conn:
        conn.execute("SET statement_timeout = 3000")
        yield conn


SCOPES = "report.scope"

FORBIDDEN = [
    # Hole 1: the scope, and whatever could move it.
    "SELECT set_config('report.logs', 'x', false)",
    "SELECT set_config('search_path', 'public', false) FROM rows",
    "SELECT set_config('role', 'sshwarma', false)",
    "SELECT pg_catalog.set_config('session_authorization', 'sshwarma', false)",
    "SELECT current_setting('search_path')", "SELECT current_setting('data_directory')",
    "SELECT * FROM report.scope", "SELECT * FROM report.scope_of('logs')", "SELECT report.seen()",
    "SELECT content FROM report_gate.rows", "SELECT * FROM report_gate.things",
    "SELECT count(*) FROM scope", "SELECT * FROM report.login",
    "SELECT password FROM login", "SELECT pg_backend_pid()",
    "SELECT report.shown('{}', '{}', '{}')",
    "SELECT shown(metadata, '{env}', '{}') FROM things",
    "SELECT content FROM public.rows", "SELECT count(*) FROM public.rows",
    "SELECT * FROM public.messages", "WITH rows AS (SELECT * FROM public.rows) SELECT * FROM rows",
    "SELECT * FROM rows JOIN LATERAL (SELECT * FROM public.rows) r ON true",
    "TABLE rows", "SELECT * FROM ONLY public.rows", "SELECT * FROM question",
    "SELECT * FROM pg_temp.question",
    # Hole 2: what writes, forges, blocks or reaches out, although a transaction only reads.
    *(f"SELECT {call}" for call in (
        "pg_notify('ev', 'forged')", "pg_catalog.pg_notify('ev', 'forged')", "pg_sleep(1)",
        "pg_sleep_for('1 s')", "pg_sleep_until(now() + '1 s')", "pg_advisory_lock(1)",
        "pg_advisory_xact_lock(1)", "pg_try_advisory_lock(1)", "pg_advisory_unlock_all()",
        "pg_advisory_lock_shared(1, 2)", "lo_create(0)", "lo_creat(1)",
        "lo_from_bytea(0, 'x')", "lo_import('/etc/passwd')", "lo_export(1, '/tmp/x')",
        "lo_unlink(1)",
        "loread(1, 1)", "pg_read_file('/etc/passwd')", "pg_read_binary_file('PG_VERSION')",
        "pg_ls_dir('.')", "pg_stat_file('PG_VERSION')", "pg_current_logfile()",
        "query_to_xml('SELECT * FROM public.rows', true, true, '')",
        "table_to_xml('public.rows', true, true, '')", "cursor_to_xml('found', 1, true, true, '')",
        "schema_to_xml('public', true, true, '')", "database_to_xml(true, true, '')",
        "pg_terminate_backend(1)", "pg_cancel_backend(1)", "pg_reload_conf()",
        "pg_export_snapshot()", "txid_current()", "pg_current_xact_id()", "nextval('rows_n_seq')",
        "pg_logical_emit_message(true, 'a', 'b')", "pg_switch_wal()", "pg_promote()",
        "pg_create_restore_point('a')", "setseed(0)", "random()", "gen_random_uuid()",
        "pg_stat_reset()", "pg_stat_get_activity(NULL)", "pg_stat_get_backend_activity(1)",
        "pg_get_viewdef('messages'::regclass)", "pg_relation_filepath('rows')",
        "pg_database_size('postgres')", "has_table_privilege('rows', 'SELECT')",
        "inet_server_addr()", "version()", "pg_conf_load_time()", "obj_description(1)",
        "ts_stat('SELECT content FROM public.rows')", "dblink('a', 'b')",
        "json_populate_record(NULL::pg_authid, '{}')", "xpath('/a', '<a/>')",
        "to_regclass('public.tokens')", "convert_from('a', 'UTF8')", "pg_input_is_valid('a', 'b')",
    )),
    "SELECT ts.word FROM ts_stat('SELECT to_tsvector(content) FROM public.rows') ts",
    "SELECT * FROM query_to_xml('SELECT 1', true, true, '')",
    "SELECT 1 WHERE pg_notify('ev', 'x') IS NULL",
    "SELECT 1 FROM rows ORDER BY pg_notify('ev', 'x')",
    "SELECT 1 LIMIT (SELECT lo_create(0))",
    "SELECT sum(n) OVER (ORDER BY pg_advisory_lock(n)) FROM rows",
    "SELECT * FROM (VALUES (set_config('a.b', 'c', true))) v",
    "SELECT CASE WHEN false THEN pg_sleep(1)::text END",
    "WITH x AS MATERIALIZED (SELECT lo_create(0)) SELECT 1",
    "WITH x AS (INSERT INTO report.scope VALUES (1, 'admin', '') RETURNING 1) SELECT * FROM x",
    "WITH x AS (DELETE FROM rows RETURNING 1) SELECT 1",
    "WITH x AS (UPDATE things SET name = 'x' RETURNING 1) SELECT * FROM x",
    "SELECT 1 INTO x", "SELECT * INTO TEMP x FROM rows", "SELECT * FROM rows FOR UPDATE",
    "SELECT * FROM things FOR SHARE NOWAIT",
    # The system's own tables, and names by which they are found.
    *(f"SELECT * FROM {name}" for name in (
        "pg_authid", "pg_shadow", "pg_roles", "pg_user", "pg_stat_activity", "pg_settings",
        "pg_file_settings", "pg_hba_file_rules", "pg_stats", "pg_statistic", "pg_class", "pg_proc",
        "pg_rewrite", "pg_views", "pg_database", "pg_locks", "pg_prepared_statements", "pg_cursors",
        "pg_largeobject", "pg_stat_ssl", "pg_user_mapping", "pg_foreign_server", "pg_config",
        "information_schema.tables", "information_schema.columns", "information_schema.views",
        "pg_catalog.pg_authid", '"pg_authid"', "pg_toast.pg_toast_1255",
        "pg_backend_memory_contexts",
    )),
    "SELECT 'public.tokens'::regclass", "SELECT 1::regclass", "SELECT 'pg_sleep'::regproc",
    "SELECT 10::oid::regrole", "SELECT 'x'::regnamespace",
    "SELECT CAST(name AS regclass) FROM things",
    "SELECT name::xml FROM things", "SELECT xmlelement(name a)", "SELECT 'now'::pg_lsn",
    "SELECT 1::money", "SELECT (NULL::pg_authid).rolpassword", "SELECT NULL::rows",
    "SELECT * FROM rows TABLESAMPLE SYSTEM (1)", "SELECT ctid FROM rows", "SELECT xmin FROM things",
    "SELECT * FROM ROWS FROM (pg_ls_dir('.'), generate_series(1, 2))",
    "SELECT * FROM xmltable('/a' PASSING '<a/>' COLUMNS b text)",
    # Values that grow, and functions that nothing can stop.
    "SELECT 'a' OPERATOR(pg_catalog.||) 'b'", "SELECT pg_catalog.repeat('a', 900000000)",
    "SELECT name OPERATOR(pg_catalog.~~) 'a' FROM things",
    "SELECT pg_catalog.replace('a', 'b', 'c')",
    "SELECT position('a' IN name) FROM things", "SELECT trim(both 'x' FROM name) FROM things",
    "SELECT format('%1000000000s', 'a')", "SELECT concat(name, name) FROM things",
    "SELECT array_fill(1, ARRAY[100000000])", "SELECT ARRAY[1] || ARRAY[2]",
    "SELECT array_agg(n) @> array_agg(n) FROM rows", "SELECT '{}'::jsonb || '{}'::jsonb",
    # Statements behind a question.
    "SELECT 1; SELECT pg_sleep(1)", "SELECT 1;/**/SELECT 2", "SELECT 1 -- \n; SELECT 2",
    "SELECT 1) AS q; --", "SELECT 1 WITH CHECK OPTION", "SELECT 1 WITH NO DATA",
    "SELECT $1", "SELECT $1::text", "SELECT $a$open", "SELECT E'open", "SELECT U&'\\00'",
    "SELECT 1 UNION SELECT 1; COMMIT", "SELECT 1;\\! id",
    "WITH a AS (SELECT 1) TABLE report.scope", "VALUES (pg_notify('a', 'b'))",
]  # fmt: skip

STATEMENTS = [
    "COPY rows TO STDOUT", "COPY (SELECT 1) TO PROGRAM 'id'", "COPY rows FROM '/etc/passwd'",
    "DO $$ BEGIN END $$", "SET ROLE sshwarma", "RESET ROLE", "SET SESSION AUTHORIZATION DEFAULT",
    "SET search_path = public", "SET LOCAL statement_timeout = 0", "SHOW all", "DISCARD ALL",
    "PREPARE x AS SELECT 1", "EXECUTE x", "DEALLOCATE ALL", "DECLARE x CURSOR FOR SELECT 1",
    "FETCH ALL FROM found", "MOVE 1 FROM found", "CLOSE ALL", "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE SELECT * FROM rows", "LISTEN ev", "NOTIFY ev, 'forged'", "UNLISTEN *",
    "LOCK TABLE rows", "CALL x()", "CREATE FUNCTION x() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE OPERATOR <<< (LEFTARG = text, RIGHTARG = text, FUNCTION = x)", "CREATE ROLE x",
    "CREATE CAST (text AS integer) WITH INOUT", "GRANT ALL ON rows TO PUBLIC", "CHECKPOINT",
    "REFRESH MATERIALIZED VIEW x", "SECURITY LABEL ON TABLE rows IS 'x'", "LOAD 'x'",
    "IMPORT FOREIGN SCHEMA x FROM SERVER y INTO z", "TRUNCATE rows",
    "MERGE INTO rows USING x ON 1=1",
]  # fmt: skip


@pytest.mark.parametrize("sql", [*FORBIDDEN, *STATEMENTS])
async def test_forbidden_queries_are_refused(bobs: Asking, sql: str) -> None:
    refusal = await bobs.refused(sql)
    assert isinstance(refusal, Forbidden | Invalid)
    if refusal.span is not None:
        start, end = refusal.span
        assert 0 <= start <= end <= len(sql)


async def test_refused_queries_leave_no_notification_lock_or_object(bobs: Asking) -> None:
    before = await everything(bobs.world)
    with psycopg.connect(address_of(bobs.world), autocommit=True) as listener:
        listener.execute("LISTEN ev")
        risky = [sql for sql in FORBIDDEN if "pg_" in sql or "lo_" in sql or "WITH" in sql]
        for sql in (*risky, *STATEMENTS):
            await bobs.refused(sql)
        assert not list(listener.notifies(timeout=0.2))
        held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 1"
        assert listener.execute(held).fetchone() == (0,)
        for made in ("pg_largeobject_metadata", "pg_class WHERE relname = 'question'", SCOPES):
            count = listener.execute(f"SELECT count(*) FROM {made}".encode())
            assert count.fetchone() == (0,), made
    assert await everything(bobs.world) == before


@pytest.mark.parametrize("sql", [
    "SELECT 1 FROM rows WHERE {content}",
    "SELECT 1 FROM rows WHERE n > 0 AND {content}",
    "SELECT 1 FROM rows WHERE n IN (1,2,3,4,5,6,7,8,9) AND {content}",
    "SELECT 1 FROM rows WHERE room_id = 'x' OR {content}",
    "SELECT {content} FROM rows",
    "SELECT bool_or({content}) FROM rows GROUP BY room_id",
    "SELECT bool_or({content}) OVER () FROM rows",
    "SELECT count(*) FILTER (WHERE {content}) FROM rows",
    "SELECT 1 FROM rows ORDER BY {content}",
    "SELECT 1 FROM rows GROUP BY {content}",
    "SELECT 1 FROM rows GROUP BY n, content HAVING {content}",
    "SELECT 1 FROM rows a CROSS JOIN rows WHERE a.n = rows.n AND {rows.content}",
    "SELECT 1 FROM generate_series(1, 9) j LEFT JOIN rows ON rows.n = j AND {content}",
    "SELECT 1 FROM rows FULL JOIN things ON things.id = rows.room_id WHERE {rows.content}",
    "SELECT 1 FROM rows JOIN LATERAL (SELECT {rows.content} AS x OFFSET 0) y ON y.x",
    "SELECT 1 FROM messages WHERE {content}",
    "SELECT 1 FROM things WHERE {name}",
    "SELECT 1 FROM things WHERE kind = 'room' AND {name}",
    "SELECT 1 FROM things t JOIN things p ON p.id = t.parent_id WHERE {p.name}",
    "SELECT 1 FROM usage WHERE {model}",
    "SELECT 1 FROM tool_calls WHERE {args}",
    "SELECT 1 FROM tools WHERE {description}",
    "SELECT 1 FROM project_memory WHERE {value}",
    "SELECT 1 FROM toolset_mcp_servers WHERE {env}",
])  # fmt: skip
@pytest.mark.parametrize("oracle", [
    # Each fails if it ever sees the word.
    "(CASE WHEN {name} LIKE '%{word}%' THEN 'x' ELSE '1' END)::int = 1",
    "1 / (CASE WHEN strpos({name}, '{word}') > 0 THEN 0 ELSE 1 END) = 1",
    "sqrt(CASE WHEN {name} ~ '{word}' THEN -1 ELSE 1 END) = 1",
    "length(repeat('x', CASE WHEN {name} ILIKE '%{word}%' THEN 9000000 ELSE 1 END)) = 1",
])  # fmt: skip
async def test_expressions_never_see_hidden_rows(bobs: Asking, sql: str, oracle: str) -> None:
    """An error there would tell what a row says, one character a question."""
    start, end = sql.index("{"), sql.index("}")

    def fill(word: str) -> str:
        expression = oracle.format(name=sql[start + 1 : end], word=word)
        return sql[:start] + f"({expression})" + sql[end + 1 :]

    await bobs.ask(fill(SECRET))
    if "FROM rows" in sql or "FROM messages" in sql:  # it does fail on what bob may see
        await bobs.refused(fill("lobby"))


async def test_every_view_is_a_security_barrier(bobs: Asking) -> None:
    """PostgreSQL tests cheap conditions first; behind a barrier, the asker's last."""
    query = """
        SELECT relname, reloptions FROM pg_class WHERE relkind IN ('v', 'm', 'r')
        AND relnamespace = 'report'::regnamespace AND NOT relname IN ('scope', 'login')
    """
    found = dict(as_owner(bobs.world, query))
    assert set(found) == set(READABLE)
    assert all(options == ["security_barrier=true"] for options in found.values())


async def test_error_of_a_cast_carries_only_visible_values(bobs: Asking) -> None:
    for column, table in (("content", "rows"), ("name", "things"), ("model", "usage")):
        refusal = await bobs.refused(f"SELECT sum({column}::int) FROM {table}")
        assert "invalid input syntax" in refusal.message.lower()


async def test_role_reads_nothing_but_its_views_without_a_scope(bobs: Asking) -> None:
    with as_asker(bobs.world) as conn:
        for table in report_access.TABLE_FILTERS:
            found = conn.execute(f"SELECT * FROM report.{table}".encode()).fetchall()
            assert not found or table == "toolset_files"
            assert SECRET not in repr(found)
            with pytest.raises(errors.InsufficientPrivilege):
                conn.execute(f"SELECT * FROM public.{table}".encode())
        for name in (
            "public.tokens", "public.agent_keys", "public.messages", "report.scope", "report.login",
            "report_gate.rows",
            "pg_authid", "pg_stat_activity", "pg_largeobject", "pg_statistic",
        ):  # fmt: skip
            with pytest.raises(errors.InsufficientPrivilege):
                conn.execute(f"SELECT * FROM {name}".encode())
        for statement in (
            "INSERT INTO report.scope VALUES (pg_backend_pid(), 'admin', '')",
            "UPDATE report.things SET name = 'x'", "DELETE FROM report.rows",
            "CREATE TABLE report.x (y int)", "CREATE TABLE public.x (y int)",
            "SET ROLE sshwarma", "ALTER ROLE CURRENT_USER SUPERUSER",
            "COPY report.rows TO '/tmp/x'",
            "SET temp_file_limit = -1", "SELECT * FROM report.rows FOR UPDATE",
        ):  # fmt: skip
            with pytest.raises(psycopg.Error) as caught:
                conn.execute(statement.encode())
            assert isinstance(caught.value, errors.InsufficientPrivilege), statement


@pytest.mark.parametrize("call", [
    "set_config('search_path', 'x', false)", "pg_notify('ev', 'x')", "pg_sleep(1)",
    "pg_advisory_lock(1)", "pg_try_advisory_xact_lock(1)", "lo_create(0)", "lo_from_bytea(0, 'x')",
    "query_to_xml('SELECT 1', true, true, '')", "pg_export_snapshot()", "pg_read_file('x')",
    "pg_terminate_backend(1)", "pg_stat_get_activity(NULL)",
])  # fmt: skip
async def test_role_may_not_call_what_writes_blocks_or_forges(bobs: Asking, call: str) -> None:
    """The second line of defence: by rights, where the first reads the question."""
    with as_asker(bobs.world) as conn, pytest.raises(errors.InsufficientPrivilege):
        conn.execute(f"SELECT {call}".encode())


async def test_simultaneous_questions_have_each_their_own_scope(bobs: Asking) -> None:
    query = "SELECT count(*), bool_or(name LIKE '%vault%') FROM chats, generate_series(1, 300)"
    ask = bobs.world.reports.run_query
    scopes = [bobs.scope, bobs.admin, ReportScope("nobody", ())] * 4
    found = [answer.rows[0] for answer in await asyncio.gather(*(ask(query, s) for s in scopes))]
    assert found == [(900, 0), (1200, 1), (0, None)] * 4


async def test_every_type_of_value_becomes_json(bobs: Asking) -> None:
    answer = await bobs.ask(
        "SELECT NULL, 1, 1.5, 'text', 'ab'::bytea, 'inf'::float8, '-inf'::float8, 'nan'::numeric,"
        " true, 12345678901234567890, ARRAY[1, 2], '{\"a\": 1}'::jsonb, DATE '2026-01-02',"
        " 1e3::real"
    )
    assert answer.rows == ((
        None, 1, 1.5, "text", "x'6162'", "inf", "-inf", "nan", 1, 12345678901234567890, "{1,2}",
        '{"a": 1}', "2026-01-02", 1000.0,
    ),)  # fmt: skip


async def test_ordinary_queries_are_answered(bobs: Asking) -> None:
    assert await bobs.column("-- a remark\n SELECT 1 /* and one */;") == [1]
    assert await bobs.column("select count(*) from (values (1), (2)) as v") == [2]
    assert await bobs.column("WITH t(x) AS (VALUES (1), (2)) SELECT count(*) FROM t") == [2]
    assert await bobs.column('SELECT value::text FROM json_each(\'{"a": 1, "b": 2}\')') == [
        "1",
        "2",
    ]
    assert await bobs.column(
        "SELECT json_schema::jsonb ->> 'type' FROM tools WHERE name = 'sshwarma:look'"
    ) == ["object"]
    assert await bobs.column(
        "SELECT row_number() OVER (ORDER BY id) FROM messages WHERE role = 'user'"
    ) == [1, 2, 3]
    assert await bobs.column("SELECT string_agg(name, ' ' ORDER BY name) FROM chats") == [
        "den home lobby"
    ]
    assert await bobs.column("SELECT name || ' ' || 1 FROM chats WHERE name ILIKE 'L%'") == [
        "lobby 1"
    ]
    for sql in (
        "SELECT a.id, a.id, b.id FROM things a JOIN things b USING (id)",
        "SELECT date_trunc('day', created_at::timestamp), count(*) FROM messages GROUP BY 1",
        "SELECT to_timestamp(created_at / 1000) FROM rows WHERE n > 0 AND NOT content IS NULL",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n) FROM rows",
        "SELECT kind, count(*) FROM rows GROUP BY GROUPING SETS ((kind), ()) ORDER BY 2 DESC",
        "SELECT EXISTS (SELECT 1 FROM rows), n IN (1, 2), n = ANY (ARRAY[1, 2]) FROM rows",
        "SELECT coalesce(nullif(name, ''), 'x'), greatest(1, 2), CASE kind WHEN 'room' THEN 1 END"
        " FROM things WHERE name SIMILAR TO 'l%' OR name ~* '^h' OR (name, kind) < ('b', 'c')",
        "WITH RECURSIVE t(id) AS (SELECT id FROM things WHERE id = 'lobby' UNION SELECT c.id FROM"
        " things c JOIN t ON c.parent_id = t.id) SELECT count(*) FROM t",
        "SELECT 1 FROM things WHERE name LIKE 'a!%' ESCAPE '!' OR name NOT LIKE '%b' ESCAPE ''",
        "SELECT name, is_enabled FROM tools WHERE name LIKE 'sshwarma:%'",
        "SELECT tool_id, status, error FROM tool_calls ORDER BY started_at DESC LIMIT 5",
        "SELECT extract(epoch FROM now()), current_date, now() - interval '1 day'",
        "SELECT substring(name from 1 for 2), trim(name), name COLLATE \"C\" FROM things",
        "SELECT x.value FROM jsonb_array_elements_text('[1]') WITH ORDINALITY AS x(value, at)",
    ):  # fmt: skip
        assert (await bobs.ask(sql)).columns, sql


async def test_refusals_name_what_postgres_has_and_point_at_the_word(bobs: Asking) -> None:
    for sql, word, words in (
        ("SELECT group_concat(name) FROM tools", "group_concat", "PostgreSQL has string_agg"),
        ("SELECT strposs(name, 'a') FROM tools", "strposs", "Did you mean strpos?"),
        ("SELECT t.nam FROM tools t", "t.nam", "Did you mean name"),
        ("SELECT 1 + 'a' FROM tools", "'a'", "invalid input syntax"),
        ("SELECT name FORM tools", "tools", "syntax error at tools"),
        ("SELECT * FROM pg_authid", "pg_authid", "pg_authid is not readable"),
        ("SELECT round('a', 2, 3)", "round", "does not exist"),
    ):
        refusal = await bobs.refused(sql)
        assert refusal.span is not None, sql
        assert sql[slice(*refusal.span)] == word
        assert words.lower() in str(refusal).lower()


async def test_world_without_the_role_says_what_to_do(postgres_server: PostgresServer) -> None:
    """Its own role may make none; what the log says makes it."""
    postgres_server.run("CREATE ROLE modest LOGIN")
    postgres_server.run("CREATE DATABASE modest OWNER modest TEMPLATE template0")
    address = DatabaseUrl(postgres_server.address("modest").replace("sshwarma@", "modest@"))
    scope = ReportScope("x", ("lobby",))
    with capture_logs() as logged:
        world = await World.open(address, tool_specs())
        with pytest.raises(Unavailable, match="has no role for them"):
            await world.reports.run_query("SELECT 1", scope)
        (entry,) = [entry for entry in logged if "superuser runs this" in entry["event"]]
        postgres_server.run(entry["sql"], "modest")
        assert (await world.reports.run_query("SELECT id FROM chats", scope)).rows == (("lobby",),)
        with as_asker(world) as conn, pytest.raises(errors.InsufficientPrivilege):
            conn.execute("SELECT pg_notify('ev', 'x')")
        await world.close()
    with capture_logs() as logged:
        async with opened(address):
            assert not [entry for entry in logged if "superuser runs this" in entry["event"]]
    postgres_server.drop(DatabaseUrl(postgres_server.address("modest")))


async def test_owner_that_may_create_roles_makes_it(postgres_server: PostgresServer) -> None:
    postgres_server.run("CREATE ROLE maker LOGIN CREATEROLE")
    postgres_server.run("CREATE DATABASE maker OWNER maker TEMPLATE template0")
    address = DatabaseUrl(postgres_server.address("maker").replace("sshwarma@", "maker@"))
    world = await World.open(address, tool_specs())
    scope = ReportScope("x", ("lobby",))
    try:
        assert (await world.reports.run_query("SELECT id FROM chats", scope)).rows == (("lobby",),)
        for sql in ("SELECT pg_notify('ev', 'x')", "SELECT lo_create(0)"):
            with pytest.raises((Forbidden, Invalid)):
                await world.reports.run_query(sql, scope)
    finally:
        await world.close()
    postgres_server.drop(DatabaseUrl(postgres_server.address("maker")))
