"""Values of limits in help texts: `{MAX_HISTORY_ROWS}` is shown as 1,000."""

from __future__ import annotations

import re
from typing import Final

from sshwarma.common import limits
from sshwarma.common.units import KIB, MIB

_PLACEHOLDER: Final = re.compile(r"(?<!\$)\{([A-Z]+(?:_[A-Z]+)+)\}")


def fill_limits(text: str) -> str:
    """Replace each `{NAME}` of a limit in `common/limits.py` by its value.

    Raises:
        ValueError: if a name is not a limit.
    """
    return _PLACEHOLDER.sub(lambda found: format_limit(found[1]), text)


def format_limit(name: str) -> str:
    """Return a limit's value as people read it, bytes and seconds with their unit.

    Raises:
        ValueError: if the name is not a limit.
    """
    value = vars(limits).get(name)
    if value is None:
        raise ValueError(f"unknown limit {name}")
    if name.endswith("_SECONDS"):
        return f"{value:g} s"
    if not name.endswith("_BYTES"):
        return f"{value:,}"
    if value % MIB == 0:
        return f"{value // MIB:,} MiB"
    return f"{value // KIB:,} KiB" if value % KIB == 0 else f"{value:,} bytes"
