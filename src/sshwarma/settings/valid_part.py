"""The valid part of settings, for checks that do not need the rest."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter, ValidationError

from sshwarma.common.os_errors import describe_os_error
from sshwarma.settings.load import (
    InvalidSettingsError,
    Settings,
    UnknownVariableError,
    describe_invalid_settings,
    load_without,
)
from sshwarma.settings.origin import ENVIRONMENT_PREFIX
from sshwarma.settings.paths import SettingsPath
from sshwarma.settings.source import SettingsSource

DATA_DIR: Final = "data_dir"

SECTIONS: Final = frozenset(Settings.model_fields) - {DATA_DIR}


@dataclass(frozen=True, slots=True)
class ValidPart:
    """Settings that may be valid in part only.

    Attributes:
        settings: with defaults in place of what is not valid; None if that is, or may be, the data
            directory.
        problems: all that is wrong; empty if the settings are valid.
        left_out: the names of sections that are not valid, or cannot be known.
    """

    settings: Settings | None
    problems: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()


def load_valid_part(source: SettingsSource) -> ValidPart:
    """Read the settings, as far as they are valid and the file can be read."""
    try:
        return ValidPart(source.load())
    except OSError as error:
        return ValidPart(_make_defaults(source), (describe_os_error(error).rstrip("."),), SECTIONS)
    except UnknownVariableError as error:  # it sets nothing, and the others may be right
        return _load_without(source, frozenset(), error.problems)
    except InvalidSettingsError as error:
        if isinstance(error.__cause__, ValidationError):
            return _load_without(source, _name_sections(error.__cause__), error.problems)
        return ValidPart(_make_defaults(source), error.problems, SECTIONS)


def _load_without(
    source: SettingsSource, left_out: frozenset[str], problems: tuple[str, ...]
) -> ValidPart:
    """Read the settings without what is wrong, until no other problem shows."""
    if DATA_DIR in left_out or not all(left_out):
        return ValidPart(None, problems, SECTIONS)
    try:
        settings = load_without(left_out, source.config, source.flags)
    except ValidationError as error:
        more = describe_invalid_settings(error, source.config, source.flags)
        wrong = _name_sections(error)
        if wrong <= left_out:
            return ValidPart(_make_defaults(source), problems, SECTIONS)
        return _load_without(source, left_out | wrong, (*problems, *more))
    except InvalidSettingsError as error:
        return ValidPart(_make_defaults(source), (*problems, *error.problems), SECTIONS)
    return ValidPart(settings, problems, left_out & SECTIONS)


def _name_sections(error: ValidationError) -> frozenset[str]:
    """Return the outermost names of wrong settings; "" for an error that is in none."""
    places = [detail["loc"] for detail in error.errors(include_url=False)]
    return frozenset(str(place[0]) if place else "" for place in places)


def _make_defaults(source: SettingsSource) -> Settings | None:
    """Return defaults with the data directory, if a flag or variable names it."""
    named = source.flags.get(DATA_DIR) or os.environ.get(f"{ENVIRONMENT_PREFIX}DATA_DIR")
    try:
        path = TypeAdapter(SettingsPath).validate_python(named or None)
    except ValidationError:
        return None
    return Settings.model_construct(data_dir=path)
