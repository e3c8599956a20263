"""Reports of imports: bounded, and the same after the way through JSON."""

from __future__ import annotations

import json

from sshwarma.common.limits import MAX_IMPORT_REASONS
from sshwarma.imports.report import ImportReport


def test_reports_of_steps_add_up() -> None:
    report = ImportReport()
    for step in range(3):
        part = ImportReport()
        part.count("messages", "new", 2)
        part.count("messages", "known")
        for number in range(4):
            part.leave_out("messages", f"{step}/{number}", "too long")
        part.projects["/srv/a"] = "new" if step == 0 else "known"
        part.name_room("s", "room")
        report.merge(json.loads(json.dumps(part.as_json())))
    assert report.describe_counts() == [
        "messages: 6 new, 3 known",
        "projects: 1 new, 0 known",
    ]
    assert report.describe_left_out() == [
        "messages: 12 (0/0, 0/1, 0/2, 0/3, 1/0 and 7 more): too long"
    ]
    assert report.new_count == 7


def test_many_reasons_are_counted_as_one() -> None:
    report = ImportReport()
    for number in range(10 * MAX_IMPORT_REASONS):
        report.leave_out("values", "x" * 10_000, f"reason {number}")
    left_out = report.as_json()["left_out"]
    assert len(left_out) == MAX_IMPORT_REASONS + 1
    assert sum(one["count"] for one in left_out) == 10 * MAX_IMPORT_REASONS
    assert len(json.dumps(left_out)) < 100_000
