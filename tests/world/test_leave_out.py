"""Policies of what later contexts leave out: their sources, and who wins."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sshwarma.common.limits import MAX_RESULT_CHARACTERS
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import leave_out, overrides, things
from sshwarma.world.bootstrap import bootstrap_world
from sshwarma.world.databases import Location
from sshwarma.world.leave_out import (
    DEFAULT_POLICY,
    RetentionPolicy,
    declare_policies,
    parse_policy,
    resolve_retention,
)
from sshwarma.world.migrate import migrate_database
from sshwarma.world.namespace_fields import set_namespace_field
from sshwarma.world.overrides import Override
from sshwarma.world.things import Thing
from sshwarma.world.world import World


def tool(**metadata: Any) -> Thing:
    return Thing("t", "n", "tool", "page", qualified_name="n:page", metadata=metadata)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("KEEP", RetentionPolicy("KEEP", MAX_RESULT_CHARACTERS)),
        ("short  40", RetentionPolicy("SHORT", 40)),
        ("SHORT", DEFAULT_POLICY),
        ("Params_Only", RetentionPolicy("PARAMS_ONLY", MAX_RESULT_CHARACTERS)),
        ("OMIT", RetentionPolicy("OMIT", MAX_RESULT_CHARACTERS)),
    ],
)
def test_policy_is_read_as_people_write_it(text: str, policy: RetentionPolicy) -> None:
    assert parse_policy(text) == policy
    assert parse_policy(str(policy)) == policy


@pytest.mark.parametrize(
    "text", ["", "MAYBE", "KEEP 5", "SHORT 0", "SHORT -1", "SHORT x", f"SHORT {10**6}", "SHORT ²"]
)
def test_text_that_names_no_policy_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="choose one of: KEEP, SHORT, PARAMS_ONLY, OMIT"):
        parse_policy(text)


@pytest.mark.parametrize(
    ("metadata", "policy"),
    [
        ({}, "SHORT 600"),
        ({"leave_out": None, "short_amount": 7}, "SHORT 600"),
        ({"leave_out": "SHORT", "short_amount": 7}, "SHORT 7"),
        ({"leave_out": "SHORT", "short_amount": True}, "SHORT 600"),
        ({"leave_out": "SHORT", "short_amount": 10**9}, f"SHORT {MAX_RESULT_CHARACTERS}"),
        ({"leave_out": "keep"}, "KEEP"),
        ({"leave_out": 5}, "SHORT 600"),
        ({"leave_out_per_action": "x"}, "SHORT 600"),
        (
            {"leave_out_per_action": {"get": "KEEP", "set": ["SHORT", 80], "x": 5}},
            "SHORT 600; get: KEEP; set: SHORT 80",
        ),
    ],
)
def test_metadata_of_any_form_is_a_policy(metadata: dict[str, Any], policy: str) -> None:
    """A plugin or an edited database wrote it."""
    assert str(resolve_retention(tool(**metadata), None)) == policy


def test_what_people_decide_is_stronger_than_what_the_tool_says() -> None:
    own = tool(**declare_policies("KEEP", {"list": "SHORT 9", "delete": "OMIT"}))
    declared = resolve_retention(own, None)
    assert str(declared) == "KEEP; delete: OMIT; list: SHORT 9"
    assert [str(declared.for_action(one)) for one in ("list", "delete", "x", None, 5)] == [
        "SHORT 9", "OMIT", "KEEP", "KEEP", "KEEP",
    ]  # fmt: skip
    one = leave_out.decide(Override("n:page"), "list", parse_policy("PARAMS_ONLY"))
    decided = resolve_retention(own, Override("n:page", leave_out=one))
    assert str(decided) == "KEEP; delete: OMIT; list: PARAMS_ONLY"
    assert decided.is_decided
    both = leave_out.decide(Override("n:page", leave_out=one), "", parse_policy("SHORT 5"))
    decided = resolve_retention(own, Override("n:page", leave_out=both))
    assert str(decided) == "SHORT 5; list: PARAMS_ONLY", "the whole tool goes before its actions"
    back = leave_out.decide(Override("n:page", leave_out=both), "", None)
    assert back == one
    assert leave_out.decide(Override("n:page", leave_out=back), "list", None) is None


async def test_start_updates_what_a_verb_says_and_keeps_what_people_decided(
    database: Location,
) -> None:
    world = await World.open(database, tool_specs())
    specs = [
        replace(spec, leave_out="SHORT 50" if spec.name == "look" else spec.leave_out)
        for spec in tool_specs()
    ]
    look = next(spec.id for spec in specs if spec.name == "look")

    async def read() -> str:
        return await world.store.read(
            lambda conn: str(leave_out.read_retention(conn, things.get_live_thing(conn, look)))
        )

    assert await read() == "SHORT 600"
    await world.change(lambda tx: bootstrap_world(tx, specs))
    assert await read() == "SHORT 50"
    for field, value in (("leave_out", "KEEP"), ("leave_out.all", "OMIT")):
        await world.change(
            lambda tx, field=field, value=value: set_namespace_field(
                tx, things.get_live_thing(tx.conn, look), field, value
            )
        )
    await world.change(lambda tx: bootstrap_world(tx, specs))
    assert await read() == "KEEP; all: OMIT"
    stored = await world.store.read(
        lambda conn: things.get_live_thing(conn, look).metadata["short_amount"]
    )
    assert stored == 50, "the declaration is there, too"
    await world.change(lambda tx: bootstrap_world(tx, tool_specs()))
    await world.change(
        lambda tx: overrides.clear_override(tx, things.get_live_thing(tx.conn, look))
    )
    assert await read() == "SHORT 600", "a declaration that is gone does not stay"
    await world.close()


def test_migration_moves_what_people_decided(tmp_path: Path) -> None:
    database_file = tmp_path / "world.db"
    migrate_database(database_file, BEFORE)
    stored = {
        "a:short": {"leave_out": "SHORT", "short_amount": 50, "input_schema": {}},
        "a:keep": {"leave_out": "KEEP"},
        "a:gone": {"leave_out": "OMIT"},
        "a:none": {"about": "leave_out"},
    }
    with closing(sqlite3.connect(database_file)) as database:
        database.executemany(
            "INSERT INTO things (id, kind, name, qualified_name, metadata, deleted_at,"
            " created_at, updated_at) VALUES (?, 'tool', ?, ?, ?, ?, 1, 1)",
            [
                (name, name[2:], name, json.dumps(metadata), 1 if name == "a:gone" else None)
                for name, metadata in stored.items()
            ],
        )
        database.execute(
            "INSERT INTO tool_overrides (id, toolset_id, tool_id, enabled)"
            " VALUES ('1', 'a', 'a:keep', 0)"
        )
        database.commit()
    migrate_database(database_file)
    with closing(sqlite3.connect(database_file)) as database:
        query = "SELECT tool_id, toolset_id, enabled, leave_out FROM tool_overrides ORDER BY 1"
        assert database.execute(query).fetchall() == [
            ("a:keep", "a", 0, '{"": ["KEEP", null]}'),
            ("a:short", "a", None, '{"": ["SHORT", 50]}'),
        ]
        left = dict(database.execute("SELECT id, metadata FROM things WHERE id LIKE 'a:%'"))
    assert json.loads(left["a:short"]) == {"input_schema": {}}
    assert json.loads(left["a:none"]) == stored["a:none"]


BEFORE = "0018"
"""The schema before what people decided about this was stored apart."""
