"""References of a JSON Schema to a part of itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,4}")


def find_part(schema: Any, reference: Any) -> Any:
    """Return the part of a schema that a reference leads to; None if nowhere.

    Args:
        schema: the whole schema.
        reference: such as `#/$defs/point` or `#/anyOf/0`; others lead nowhere.
    """
    if not isinstance(reference, str) or not f"{reference}/".startswith("#/"):
        return None
    part = schema
    for step in reference[1:].split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, Mapping):
            part = part.get(key)
        elif isinstance(part, list) and _INDEX.fullmatch(key) and int(key) < len(part):
            part = part[int(key)]
        else:
            return None
    return part
