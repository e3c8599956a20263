"""The base class of every section of the settings."""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict

from sshwarma.common.limits import MAX_NAME_CHARACTERS

_NAME: Final = re.compile(rf"[a-z][a-z0-9_-]{{0,{MAX_NAME_CHARACTERS - 1}}}")


def check_table_name(value: str) -> str:
    """Return the name of a model or of an MCP server.

    Raises:
        ValueError: if it is not a name.
    """
    if not _NAME.fullmatch(value):
        raise ValueError(
            "must be a lower-case letter, then lower-case letters, digits, - or _,"
            f" at most {MAX_NAME_CHARACTERS} characters"
        )
    return value


TableName: TypeAlias = Annotated[str, AfterValidator(check_table_name)]
"""The name of a model or of an MCP server."""


class SettingsSection(BaseModel):
    """A table of the file: unknown names are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
