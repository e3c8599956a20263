"""Which folder `sshwarma plugins check` reads."""

from __future__ import annotations

from pathlib import Path

from sshwarma.admin.check_plugins import find_checked_folder


def test_folder_of_plugins_or_the_directory_that_it_is_in(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    assert find_checked_folder(tmp_path) == tools, "which is missing, as for a server"
    assert find_checked_folder(tools) == tools
    (tools / "kit").mkdir(parents=True)
    (tools / "kit" / "__init__.py").write_text("TOOL_NAMESPACE = 'kit'\n")
    assert find_checked_folder(tmp_path) == find_checked_folder(tools) == tools
    plain = tmp_path / "plain"
    (plain / "kit").mkdir(parents=True)
    (plain / "kit" / "__init__.py").touch()
    assert find_checked_folder(plain) == plain
