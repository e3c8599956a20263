"""The result of one check of `sshwarma doctor`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Reason(StrEnum):
    """Why a check failed, for those who treat it otherwise where a server runs."""

    MISSING_VARIABLE = "missing variable"


@dataclass
class CheckResult:
    """The result of one check.

    Attributes:
        remedy: how to fix a failed one, or what to consider.
        ok: whether the server can run so; a warning is ok.
        is_warning: whether it deserves a second thought: it may be meant.
        items: what it is about, one by one, for programs.
        reason: why it failed, where that decides what is said of it.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    is_warning: bool = False
    items: list[dict[str, str]] = field(default_factory=list)
    reason: Reason | None = None

    @property
    def mark(self) -> str:
        """The word before the result in a list."""
        if not self.ok:
            return "FAIL"
        return "warn" if self.is_warning else "ok"


def warn(name: str, detail: str, remedy: str) -> CheckResult:
    """Return a result that does not fail, and says what to consider."""
    return CheckResult(name, True, detail, remedy, is_warning=True)
