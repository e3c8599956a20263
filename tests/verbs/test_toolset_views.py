"""How a terminal shows a toolset."""

from __future__ import annotations

from sshwarma.terminal.render import render_plain
from sshwarma.verbs.toolset_views import (
    MAX_SHOWN_FILES,
    ToolsetDetails,
    ToolsetFile,
    ToolsetItem,
    draw_toolset_details,
)


def test_many_files_of_a_toolset_are_counted() -> None:
    files = tuple(ToolsetFile(f"a{n:02}.py", "python", "", n) for n in range(MAX_SHOWN_FILES + 2))
    item = ToolsetItem("kit", "Kit", "1.0", "", True, "2026-11-26T11:06:47", "ann", "ssh", "zip", 0)
    shown = render_plain(draw_toolset_details(ToolsetDetails(item, (), files, (), (), "")))
    assert "22 files, 231 B\n    a00.py  0 B\n" in shown
    assert shown.endswith("    a19.py  19 B\n    and 2 more files")
