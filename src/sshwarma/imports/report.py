"""Report of an import: counts by kind, and what is left out and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from sshwarma.common.limits import (
    MAX_IMPORT_NAME_CHARACTERS,
    MAX_IMPORT_REASONS,
    MAX_NAMED_FILES,
)
from sshwarma.common.shorten import join_with_rest

STATES: Final = ("new", "known")
"""What the world makes of an item: it is stored now, or it was before."""

OTHER_REASONS: Final = "other reasons"


@dataclass(slots=True)
class NotImported:
    """What is not imported for one reason: how much, and the names of the first."""

    what: str
    reason: str
    count: int = 0
    names: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "what": self.what, "reason": self.reason, "count": self.count, "names": self.names
        }  # fmt: skip


class ImportReport:
    """Counts of an import by kind, such as `messages`, and what is left out."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        self._left_out: dict[tuple[str, str], NotImported] = {}
        self.rooms: dict[str, str] = {}
        """Names of rooms, by those that they have in the source; a few of them."""
        self.projects: dict[str, str] = {}
        """Whether each project of the values is `new` or `known`, by its canonical path."""

    def count(self, what: str, state: str, number: int = 1) -> None:
        """Count items that are `new` or `known`."""
        counts = self._counts.setdefault(what, dict.fromkeys(STATES, 0))
        counts[state] += number

    def leave_out(self, what: str, name: str, reason: str, number: int = 1) -> None:
        """Count items that are not imported, with the name of one and the reason."""
        if (what, reason) not in self._left_out and len(self._left_out) >= MAX_IMPORT_REASONS:
            what, reason = "entries", OTHER_REASONS
        entry = self._left_out.setdefault((what, reason), NotImported(what, reason))
        entry.count += number
        if name and len(entry.names) < MAX_NAMED_FILES:
            entry.names.append(name[:MAX_IMPORT_NAME_CHARACTERS])

    def name_room(self, source_name: str, room: str) -> None:
        """Remember which room something of the source is in; only of the first."""
        if len(self.rooms) < MAX_IMPORT_REASONS:
            self.rooms[source_name[:MAX_IMPORT_NAME_CHARACTERS]] = room

    def merge(self, answer: dict[str, Any]) -> None:
        """Add what a step has answered, as `as_json` of its own report."""
        for what, counts in answer["counts"].items():
            for state in STATES:
                self.count(what, state, counts[state])
        for entry in answer["left_out"]:
            names = entry["names"] or [""]
            self.leave_out(
                entry["what"], names[0], entry["reason"], entry["count"] - len(names) + 1
            )
            for name in names[1:]:
                self.leave_out(entry["what"], name, entry["reason"])
        for source_name, room in answer["rooms"].items():
            self.name_room(source_name, room)
        for path, state in answer["projects"].items():
            if path not in self.projects:  # a later step knows what an earlier one has made
                self.projects[path] = state
                self.count("projects", state)

    @property
    def new_count(self) -> int:
        """The number of items that are new."""
        return sum(counts["new"] for counts in self._counts.values())

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            "counts": self._counts,
            "left_out": [entry.as_json() for entry in self._left_out.values()],
            "rooms": self.rooms,
            "projects": self.projects,
        }

    def describe_counts(self) -> list[str]:
        """Describe the counts, one kind each: "12 messages new, 3 known"."""
        return [
            f"{what}: {counts['new']} new, {counts['known']} known"
            for what, counts in self._counts.items()
        ]

    def describe_left_out(self) -> list[str]:
        """Describe what is left out, one reason each."""
        lines = []
        for entry in self._left_out.values():
            listed = join_with_rest(entry.names, len(entry.names), total=entry.count)
            named = f" ({listed})" if entry.names else ""
            lines.append(f"{entry.what}: {entry.count}{named}: {entry.reason}")
        return lines
