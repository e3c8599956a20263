"""What a question on PostgreSQL may use, by PostgreSQL's own reading of it.

The question is made a temporary view, which is not executed, and the stored form of the view is
read: in it, each name is resolved to the relation, function, operator or type that PostgreSQL would
use. All must be on lists; so must the forms of expressions, so that a form that a later version
adds is refused until it is known here. A list of what is allowed needs no right in the database,
where taking EXECUTE from PUBLIC needs a superuser and is felt by every other role.

Operators are allowed by their name and the types that they take. Their functions have no effects,
and those that take unbounded time are those of `reports.postgres.sql`, or not allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import psycopg

DeniedUse = tuple[str, str]
"""What is denied, as `report_errors` names it, and its name."""

ALLOWED_FUNCTIONS: Final = frozenset("""
    abs age array_agg array_length array_position array_to_string ascii avg bool_and bool_or
    btrim/1 cardinality ceil ceiling char_length character_length chr coalesce corr count cume_dist
    date_bin date_part date_trunc degrees dense_rank div every exp extract first_value floor
    generate_series generate_subscripts initcap isfinite json_agg json_array_elements
    json_array_elements_text json_array_length json_build_array json_build_object json_each
    json_each_text json_extract_path json_extract_path_text json_object_agg json_object_keys
    json_typeof jsonb_agg jsonb_array_elements jsonb_array_elements_text jsonb_array_length
    jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path
    jsonb_extract_path_text jsonb_object_agg jsonb_object_keys jsonb_path_exists jsonb_path_query
    jsonb_path_query_array jsonb_path_query_first jsonb_pretty jsonb_strip_nulls jsonb_typeof
    justify_days justify_hours justify_interval lag last_value lead left length like_escape ln log
    log10 lower ltrim/1 make_date make_interval make_time make_timestamp max md5 min mod mode
    now nth_value ntile num_nonnulls num_nulls octet_length percent_rank
    percentile_cont percentile_disc pi pow power radians rank regexp_count regexp_instr regexp_like
    regexp_match regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table
    regexp_substr reverse right round row_number row_to_json rtrim/1 similar_to_escape sign sqrt
    starts_with stddev stddev_pop stddev_samp string_agg substr substring sum timezone to_char
    to_date to_json to_jsonb to_number to_timestamp trim_scale trunc unnest upper var_pop var_samp
    variance width_bucket
""".split())  # fmt: skip # noqa: SIM905
"""Functions of PostgreSQL, some with a number of arguments. Not those that grow a value without
limit or whose time grows with a product, of which the schema `report` has its own."""

ALLOWED_OWN_FUNCTIONS: Final = frozenset("""
    btrim lpad ltrim repeat replace rpad rtrim split_part string_to_array strpos translate
""".split())  # fmt: skip # noqa: SIM905
"""Functions of the schema `report`."""

ALLOWED_OPERATORS: Final = frozenset("""
    = <> < <= > >= + - * / % ^ |/ ||/ @ & | # ~ << >> ~* !~ !~* -> ->> #> #>> ? @? @@ ^@
""".split())  # fmt: skip # noqa: SIM905

_SCALAR_TYPES: Final = (
    "bool", "bpchar", "bytea", "date", "float4", "float8", "int2", "int4", "int8", "interval",
    "json", "jsonb", "jsonpath", "numeric", "record", "text", "time", "timestamp", "timestamptz",
    "timetz", "unknown", "uuid", "varchar",
)  # fmt: skip

ALLOWED_TYPES: Final = frozenset((*_SCALAR_TYPES, *(f"_{name}" for name in _SCALAR_TYPES)))
"""Types of literals and casts. Not those by which names of the system are looked up."""

ALLOWED_OPERAND_TYPES: Final = frozenset((*_SCALAR_TYPES, "anyarray", "name"))
"""Types that operators take; arrays are only compared."""

ALLOWED_FORMS: Final = frozenset("""
    AGGREF ALIAS ARRAY ARRAYCOERCEEXPR ARRAYEXPR BOOLEANTEST BOOLEXPR CASE CASEEXPR CASETESTEXPR
    CASEWHEN COALESCE COALESCEEXPR COERCEVIAIO COLLATE COLLATEEXPR COMMONTABLEEXPR CONST
    CTECYCLECLAUSE CTESEARCHCLAUSE DISTINCTEXPR FIELDSELECT FROMEXPR FUNCEXPR GROUPINGFUNC
    GROUPINGSET JOINEXPR JSONCONSTRUCTOREXPR JSONFORMAT JSONISPREDICATE JSONRETURNING JSONVALUEEXPR
    MINMAX MINMAXEXPR NULLIFEXPR NULLTEST OPEXPR QUERY RANGETBLENTRY RANGETBLFUNCTION RANGETBLREF
    RELABELTYPE ROW ROWCOMPARE ROWCOMPAREEXPR ROWEXPR RTE RTEPERMISSIONINFO SCALARARRAYOPEXPR
    SETOPERATIONSTMT SORTGROUPCLAUSE SQLVALUEFUNCTION SUBLINK SUBSCRIPTINGREF TARGETENTRY VAR WHEN
    WINDOWCLAUSE WINDOWFUNC
""".split())  # fmt: skip # noqa: SIM905
"""Nodes of a query's stored form, by their names in every version since 14."""

_NODE: Final = re.compile(r"\{([A-Z]\w*)")
_OBJECT: Final = re.compile(r":(funcid|aggfnoid|winfnoid|opno|relid|consttype|resulttype) (\d+)")
_OPERATORS: Final = re.compile(r":opnos \(o ([\d ]+)\)")

_SELECT_FUNCTIONS: Final = """
    SELECT p.proname, p.pronargs, n.nspname, t.typname,
           EXISTS (SELECT FROM pg_catalog.pg_cast c WHERE c.castfunc = p.oid)
    FROM pg_catalog.pg_proc p
    JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    JOIN pg_catalog.pg_type t ON t.oid = p.prorettype
    WHERE p.oid = ANY (%s::pg_catalog.oid[])
"""
_SELECT_OPERATORS: Final = """
    SELECT o.oprname, n.nspname, l.typname, r.typname
    FROM pg_catalog.pg_operator o
    JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
    LEFT JOIN pg_catalog.pg_type l ON l.oid = o.oprleft
    LEFT JOIN pg_catalog.pg_type r ON r.oid = o.oprright
    WHERE o.oid = ANY (%s::pg_catalog.oid[])
"""
_SELECT_RELATIONS: Final = """
    SELECT c.relname, n.nspname, c.relkind::pg_catalog.text
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = ANY (%s::pg_catalog.oid[]) AND c.oid <> %s::pg_catalog.regclass
"""
_SELECT_TYPES: Final = """
    SELECT t.typname, n.nspname
    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
    WHERE t.oid = ANY (%s::pg_catalog.oid[])
"""
_SELECT_STORED_FORM: Final = (
    "SELECT ev_action::pg_catalog.text FROM pg_catalog.pg_rewrite"
    " WHERE ev_class = %s::pg_catalog.regclass"
)


def find_denied_use(driver: psycopg.Connection[Any], view: str) -> DeniedUse | None:
    """Return the first thing that a view uses and a question may not, if any.

    Args:
        driver: of the role of the questions, in the transaction that made the view.
        view: the name of the view, with its schema.
    """
    found = driver.execute(_SELECT_STORED_FORM, (view,)).fetchone()
    if found is None:
        return "other", ""
    stored: str = found[0]
    for form in _NODE.findall(stored):
        if form not in ALLOWED_FORMS:
            return ("write", "") if form == "ROWMARKCLAUSE" else ("form", form)
    used: dict[str, set[int]] = {}
    for kind, number in _OBJECT.findall(stored):
        used.setdefault(kind, set()).add(int(number))
    operators = used.get("opno", set()).union(
        *(map(int, numbers.split()) for numbers in _OPERATORS.findall(stored))
    )
    functions = set().union(*(used.get(kind, ()) for kind in ("funcid", "aggfnoid", "winfnoid")))
    types = used.get("consttype", set()) | used.get("resulttype", set())
    return (
        _find_denied_relation(driver, used.get("relid", set()), view)
        or _find_denied_function(driver, functions)
        or _find_denied_operator(driver, operators)
        or _find_denied_type(driver, types)
    )


def _find_denied_relation(
    driver: psycopg.Connection[Any], oids: set[int], view: str
) -> DeniedUse | None:
    rows = driver.execute(_SELECT_RELATIONS, (list(oids), view)).fetchall()
    for name, schema, kind in sorted(rows):
        if schema != "report" or kind != "v":
            return "read", name
    return None


def _find_denied_function(driver: psycopg.Connection[Any], oids: set[int]) -> DeniedUse | None:
    rows = _select(driver, _SELECT_FUNCTIONS, oids)
    for name, count, schema, result, is_cast in rows:
        if schema == "report" and name in ALLOWED_OWN_FUNCTIONS:
            continue
        is_listed = name in ALLOWED_FUNCTIONS or f"{name}/{count}" in ALLOWED_FUNCTIONS
        if schema == "pg_catalog" and (is_listed or (is_cast and result in ALLOWED_TYPES)):
            continue
        return "function", name
    return None


def _find_denied_operator(driver: psycopg.Connection[Any], oids: set[int]) -> DeniedUse | None:
    for name, schema, left, right in _select(driver, _SELECT_OPERATORS, oids):
        if schema == "report":
            continue
        operands = {type_ for type_ in (left, right) if type_ is not None}
        if name in ("#>", "#>>"):  # a path into JSON
            operands.discard("_text")
        is_listed = name in ALLOWED_OPERATORS and operands <= ALLOWED_OPERAND_TYPES
        if schema == "pg_catalog" and is_listed:
            continue
        return "operator", name
    return None


def _find_denied_type(driver: psycopg.Connection[Any], oids: set[int]) -> DeniedUse | None:
    for name, schema in _select(driver, _SELECT_TYPES, oids):
        if schema != "pg_catalog" or name not in ALLOWED_TYPES:
            return "type", name
    return None


def _select(
    driver: psycopg.Connection[Any], query: str, oids: Iterable[int]
) -> list[tuple[Any, ...]]:
    """Return the rows of all numbers; one that has none is denied by the last."""
    numbers = list(oids)
    rows = driver.execute(query.encode(), (numbers,)).fetchall() if numbers else []
    if len(rows) != len(numbers):
        rows.append(("?",) + (None,) * 4)
    return sorted(rows, key=lambda row: str(row[0]))
