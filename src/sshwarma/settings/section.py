"""The base class of every section of the settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SettingsSection(BaseModel):
    """A table of the file: unknown names are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
