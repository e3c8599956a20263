"""The base class of every section of the settings."""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict

from sshwarma.common.limits import MAX_NAME_CHARACTERS

NAME_PATTERN: Final = re.compile(rf"[a-z][a-z0-9_-]{{0,{MAX_NAME_CHARACTERS - 1}}}")
NAME_RULE: Final = (
    "a lower-case letter, then lower-case letters, digits, - or _,"
    f" at most {MAX_NAME_CHARACTERS} characters"
)
"""The form of a name, in words."""


def check_table_name(value: str) -> str:
    """Return the name of a model or of an MCP server.

    Raises:
        ValueError: if it is not a name.
    """
    if not NAME_PATTERN.fullmatch(value):
        raise ValueError(f"must be {NAME_RULE}")
    return value


TableName: TypeAlias = Annotated[str, AfterValidator(check_table_name)]
"""The name of a model or of an MCP server."""


class SettingsSection(BaseModel):
    """A table of the file: unknown names are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
