"""The schema and the role of questions in SQL on PostgreSQL.

Questions are asked by a role of their own, which can read the views of the schema `report` and
nothing else of the world. There, `rows` or `things` is a view over the table of that name, for what
the asker may read (`report.scope`), and the reporting views are created again over such views, from
their own text. All are security barriers: no function or operator of a question sees a row that
its asker may not read. The role cannot choose its scope: it is stored for the process that answers,
by the world's own role.

That role makes the role of the questions if it may (CREATEROLE). As a superuser it also takes
functions from PUBLIC that forge, write or block: a second line behind `postgres_report_access`,
which questions do not pass with them.
"""

# ruff: noqa: S608 - every name in a statement is a constant of the program, or quoted by PostgreSQL

from __future__ import annotations

import re
import secrets
from typing import Any, Final

import psycopg
import structlog
from psycopg import sql

from sshwarma.world.migrate import migrations_dir
from sshwarma.world.report_access import (
    ADMIN_METADATA_KEYS,
    MASKED_METADATA_KEYS,
    PUBLIC_METADATA_KEYS,
    TABLE_FILTERS,
)
from sshwarma.world.schema import metadata

log = structlog.get_logger(__name__)

SCHEMA: Final = "report"

MAX_ROLE_PREFIX_BYTES: Final = 50
"""Bytes of a database's name that its role has: names have at most 63 bytes."""

TEMP_FILE_LIMIT: Final = "64MB"
"""Files of one question, for what its sorts and joins cannot hold in memory."""

REVOKED_FUNCTIONS: Final = (
    "(set_config|pg_notify|pg_sleep.*|pg_(try_)?advisory_.*|lo_.*|loread|lowrite"
    "|(query|table|cursor|schema|database)_to_xml.*|dblink.*|pg_export_snapshot"
    "|pg_logical_emit_message|pg_stat_get_activity|pg_stat_get_backend_activity"
    "|txid_current|pg_current_xact_id|pg_cancel_backend|pg_terminate_backend)"
)
"""A pattern of functions that forge, write, block or tell what others ask."""

_SCOPE: Final = "SELECT one FROM report.scope_of('{}') AS one"
_IS_ADMIN: Final = f"EXISTS ({_SCOPE.format('admin')})"

# Things in a room, in the asker's own bag or in an open one, at any depth; and agents. As
# `report_access` has it for SQLite; here it is found for each mention in a question, because to
# store 14,000 things took 200 ms.
_CREATE_SEEN: Final = """
    CREATE FUNCTION report.seen() RETURNS SETOF text
    LANGUAGE sql STABLE SECURITY DEFINER ROWS 5000 SET search_path = {schema}, pg_catalog, pg_temp
    AS $$
        WITH RECURSIVE inside(id) AS (
            SELECT scope.id FROM report.scope
            WHERE scope.pid = pg_backend_pid() AND scope.kind IN ('bags', 'contexts', 'logs')
            UNION
            SELECT child.id FROM inside JOIN things AS child ON child.parent_id = inside.id
            WHERE child.deleted_at IS NULL AND child.kind NOT IN ('room', 'agent')
        )
        SELECT id FROM inside UNION SELECT id FROM things WHERE kind = 'agent'
            AND EXISTS (SELECT FROM report.scope WHERE scope.pid = pg_backend_pid())
    $$
"""

_CREATE_VIEW: Final = re.compile(r"^CREATE VIEW (\w+) AS$", re.MULTILINE)


def create_report_schema(driver: psycopg.Connection[Any], views: str) -> None:
    """Create the schema, in the current transaction.

    Args:
        driver: of the world's own role, at the world's tables.
        views: the statements that create the reporting views, each to its semicolon.
    """
    driver.execute((migrations_dir() / "reports.postgres.sql").read_bytes(), prepare=False)
    (name,) = driver.execute("SELECT current_schema()").fetchone() or ("public",)
    (path,) = driver.execute("SHOW search_path").fetchone() or ("public",)
    schema = sql.Identifier(name).as_string(driver)
    _execute(driver, _CREATE_SEEN.format(schema=schema))
    for table in TABLE_FILTERS:
        _execute(driver, f"CREATE VIEW report_gate.{table} AS {_gate(table)}")
        gate = f"SELECT * FROM report_gate.{table}"
        _execute(driver, f"CREATE VIEW report.{table} WITH (security_barrier) AS {gate}")
    _set_search_path(driver, f"report_gate, {schema}")
    for statement in _split_views(views):
        text = _CREATE_VIEW.sub(r"CREATE VIEW report.\1 WITH (security_barrier) AS", statement)
        _execute(driver, text)
    _set_search_path(driver, path)
    prefix = driver.info.dbname.encode()[:MAX_ROLE_PREFIX_BYTES].decode(errors="ignore")
    login = (f"{prefix}_report", secrets.token_urlsafe(24))
    driver.execute("INSERT INTO report.login VALUES (%s, %s)", login)


def ensure_report_role(driver: psycopg.Connection[Any]) -> None:
    """Create the role of questions, if it is missing and the world's own may.

    If it may not, the log says what somebody who may has to run, and `/sql` is off.
    """
    query = (
        "SELECT l.role, r.oid IS NOT NULL, r.oid IS NOT NULL AND has_schema_privilege("
        "l.role, 'report', 'USAGE'), me.rolsuper, me.rolcreaterole"
        " FROM report.login l LEFT JOIN pg_roles r ON r.rolname = l.role,"
        " pg_roles me WHERE me.rolname = current_user"
    )
    found = driver.execute(query).fetchone()
    if found is None:
        return
    _, exists, has_grants, is_superuser, may_create = found
    if exists and has_grants:
        return
    statements = list(_list_role_statements(driver, exists, is_superuser))
    if not (is_superuser or may_create):
        statements = list(_list_role_statements(driver, exists, is_superuser=True))
        log.warning("/sql is off until a superuser runs this", sql=";\n".join(statements) + ";")
        return
    driver.execute("SAVEPOINT report_role")
    try:
        for statement in statements:
            _execute(driver, statement)
    except psycopg.errors.InsufficientPrivilege as error:
        driver.execute("ROLLBACK TO SAVEPOINT report_role")
        statements = list(_list_role_statements(driver, exists, is_superuser=True))
        log.warning(
            "/sql is off until a superuser runs this",
            sql=";\n".join(statements) + ";",
            error=error.diag.message_primary,
        )


def _list_role_statements(
    driver: psycopg.Connection[Any], exists: bool, is_superuser: bool
) -> list[str]:
    """Return what makes the role; its password is in it as a SCRAM secret."""
    query = "SELECT role, password, current_user FROM report.login"
    found = driver.execute(query).fetchone()
    assert found is not None  # noqa: S101 - the caller has read it
    role, password, owner = found
    name = sql.Identifier(role).as_string(driver)
    own = sql.Identifier(owner).as_string(driver)
    secret = driver.pgconn.encrypt_password(
        password.encode(), role.encode(), b"scram-sha-256"
    ).decode()
    statements = [
        f"{'ALTER' if exists else 'CREATE'} ROLE {name} LOGIN NOINHERIT PASSWORD '{secret}'",
        f"GRANT USAGE ON SCHEMA report TO {name}",
        *(f"GRANT SELECT ON report.{view} TO {name}" for view in list_report_views(driver)),
    ]
    if is_superuser:
        database = sql.Identifier(driver.info.dbname).as_string(driver)
        statements += [
            f"GRANT CONNECT, TEMPORARY ON DATABASE {database} TO {name}",
            f"ALTER ROLE {name} SET temp_file_limit = '{TEMP_FILE_LIMIT}'",
            # A mistake in a question does not concern operators, and the question may be private.
            f"ALTER ROLE {name} SET log_min_messages = 'fatal'",
            f"ALTER ROLE {name} SET log_min_error_statement = 'panic'",
            "DO $$ DECLARE one regprocedure; BEGIN FOR one IN SELECT oid FROM pg_proc"
            f" WHERE proname ~ '^{REVOKED_FUNCTIONS}$' AND prokind = 'f' LOOP EXECUTE format("
            "'REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', one); EXECUTE format("
            f"'GRANT EXECUTE ON FUNCTION %s TO pg_monitor, {own.replace(chr(39), chr(39) * 2)}',"
            " one); END LOOP; END $$",
            "REVOKE SELECT ON pg_stat_activity FROM PUBLIC",
            f"GRANT SELECT ON pg_stat_activity TO pg_monitor, {own}",
        ]
    return statements


def list_report_views(driver: psycopg.Connection[Any]) -> list[str]:
    """Return the names of what questions can read."""
    query = "SELECT relname FROM pg_class WHERE relnamespace = 'report'::regnamespace" \
        " AND relkind = 'v' ORDER BY relname"  # fmt: skip
    return [name for (name,) in driver.execute(query)]


def _gate(table: str) -> str:
    """Return the SELECT of the part of a table that the asker may read."""
    columns = []
    for column in metadata.tables[table].columns:
        name = f'"{column.name}"'
        if (table, column.name) == ("things", "metadata"):
            shown = sorted(PUBLIC_METADATA_KEYS), sorted(PUBLIC_METADATA_KEYS | ADMIN_METADATA_KEYS)
            public, admin = (f"'{{{','.join(keys)}}}'::text[]" for keys in shown)
            masked = f"'{{{','.join(sorted(MASKED_METADATA_KEYS))}}}'::text[]"
            name = (
                f"report.shown(metadata, CASE WHEN {_IS_ADMIN} THEN {admin} ELSE {public} END,"
                f" CASE WHEN {_IS_ADMIN} THEN {masked} ELSE '{{}}' END) AS metadata"
            )
        elif (table, column.name) == ("toolset_files", "stored_path"):
            name = f"CASE WHEN {_IS_ADMIN} THEN stored_path END AS stored_path"
        columns.append(name)
    condition = re.sub(
        r"SELECT id FROM temp\.(\w+)",
        lambda match: (
            "SELECT one FROM report.seen() AS one"
            if match[1] == "seen"
            else _SCOPE.format(match[1])
        ),
        TABLE_FILTERS[table].condition,
    ).replace("main.", "")
    # IS TRUE keeps it a test of each row: as a join, it would lose the order of an index.
    return f"SELECT {', '.join(columns)} FROM {table} WHERE ({condition}) IS TRUE"


def _split_views(text: str) -> list[str]:
    """Return the statements of the text that create a view."""
    return [part.group() for part in re.finditer(r"^CREATE VIEW [^;]*;", text, re.MULTILINE)]


def _set_search_path(driver: psycopg.Connection[Any], path: str) -> None:
    _execute(driver, f"SET LOCAL search_path = {path}")


def _execute(driver: psycopg.Connection[Any], statement: str) -> None:
    driver.execute(statement.encode(), prepare=False)
