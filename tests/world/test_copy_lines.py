"""Lines of tables that move between databases."""

from __future__ import annotations

import pytest

from sshwarma.world.copy_lines import CopiedTable, make_storable_json, restore_json
from sshwarma.world.schema import metadata
from support.moved_worlds import BAD_META, ODD_META


@pytest.mark.parametrize("text", ODD_META)
def test_metadata_that_postgres_reads_stays_as_it_is(text: str) -> None:
    assert make_storable_json(text) is text
    assert restore_json(text) == text


@pytest.mark.parametrize("text", BAD_META)
def test_metadata_that_is_no_json_is_kept_whole(text: str) -> None:
    stored = make_storable_json(text)
    assert stored.startswith('"not JSON: ')
    assert make_storable_json(stored) is stored
    assert restore_json(stored) == text


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ('{"a":"\\u0000"}', '{"a":"\N{SYMBOL FOR NULL}"}'),
        ('{"a":Infinity,"b":"c"}', '{"a":null,"b":"c"}'),
        ('{"a":1e999}', '{"a":null}'),
        ("", "{}"),
    ],
)
def test_metadata_is_stored_as_it_would_be_today(text: str, stored: str) -> None:
    assert make_storable_json(text) == stored


def test_every_table_has_an_order() -> None:
    tables = [CopiedTable(table) for table in metadata.sorted_tables]
    assert all(table.order and set(table.order) <= set(table.columns) for table in tables)
    [usage] = (table for table in tables if table.name == "usage")
    assert "total_tokens" not in usage.columns and usage.floats == {"cost"}


def test_floats_are_compared_by_their_bits() -> None:
    [usage] = (CopiedTable(table) for table in metadata.sorted_tables if table.name == "usage")
    row = (1, "lobby", None, None, "m\t\0", 1, 2, 0, "2026", 0.1)
    assert usage.encode(row).endswith("m\\t\N{SYMBOL FOR NULL}\t1\t2\t0\t2026\t0.1")
    assert usage.encode_for_digest(row).endswith("\t3fb999999999999a")
    assert usage.replaced_nul == 1
