"""`sshwarma plugins`: plugins in a folder of this machine."""

from __future__ import annotations

from pathlib import Path

import click

from sshwarma.cli.printed_lines import print_json, print_lines
from sshwarma.common.exit_status import EXIT_OK


@click.group()
def plugins() -> None:
    """Work on plugins without a server."""


@plugins.command("check")
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(folder: Path, as_json: bool) -> int:
    """Read the plugins in FOLDER as a server does, in a sandbox.

    FOLDER is the folder tools/, or the directory that it is in (default: the current one). What
    would be loaded is printed, or the first rule that is broken.
    """
    import asyncio

    from sshwarma.admin.check_plugins import check_plugins, find_checked_folder
    from sshwarma.toolsets.plugin_folder import plugin_path

    files, found = asyncio.run(check_plugins(find_checked_folder(folder.absolute())))
    if as_json:
        print_json(
            [
                {"name": one.folder, "count": len(one.tools), "namespace": one.namespace,
                 "path": files.name_file(plugin_path(one.folder)), "tools": list(one.tool_names)}
                for one in found
            ]
        )  # fmt: skip
        return EXIT_OK
    lines = [] if found else [f"{files.name_file('')}: no plugin is there."]
    for one in found:
        count = "1 tool" if len(one.tools) == 1 else f"{len(one.tools)} tools"
        lines += [f"{one.folder}/ ({count})", *(f"  {name}" for name in one.tool_names)]
    print_lines(lines)
    return EXIT_OK
