"""What the metadata of a row says about who has written it."""

from __future__ import annotations

from typing import Any, Final

EXTERNAL_KEY: Final = "external"
"""The key of a row's metadata that says that a program wrote it."""

CAUSE_KEY: Final = "trigger"
"""The key of a row's metadata that holds the id of the trigger in whose course it was written."""

HOPS_KEY: Final = "hops"
"""The key of a row's metadata that holds how many hooks its text has come through."""

SPEAKER_KEY: Final = "speaker"
"""The key of a row's metadata that holds for whom its author speaks."""


def name_speaker(name: str) -> dict[str, Any]:
    """Return the metadata of what a program says for another; empty without one."""
    return {EXTERNAL_KEY: True, SPEAKER_KEY: name} if name else {}
