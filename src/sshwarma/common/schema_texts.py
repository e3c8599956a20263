"""Texts of JSON Schemas, which repeat what their readers know."""

from __future__ import annotations

from typing import Any


def without_texts(schema: Any, *keywords: str) -> Any:
    """Return a schema without the texts of some keywords, such as `title`.

    A property may have the name of a keyword: then its value is a schema, and stays.
    """
    if isinstance(schema, list):
        return [without_texts(child, *keywords) for child in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: without_texts(value, *keywords)
        for key, value in schema.items()
        if key not in keywords or not isinstance(value, str)
    }
