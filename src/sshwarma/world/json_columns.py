"""Columns of JSON in statements."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ColumnElement, case, func


def extract_field(column: Column[Any], key: str) -> ColumnElement[Any]:
    """Return the SQL of a field; NULL where SQLite cannot read the text."""
    return case((func.json_valid(column) == 1, func.json_extract(column, f"$.{key}")))
