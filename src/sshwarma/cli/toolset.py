"""`sshwarma toolset`: toolsets in a folder of this machine."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import click


@click.group()
def toolset() -> None:
    """Work on toolsets without a server."""


@toolset.command("serve")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--workspace",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Folder that the tools work in (default: the current one).",
)
def serve(folder: Path, workspace: Path) -> int:
    """Serve the tools of a toolset in FOLDER over standard input and output.

    A host of MCP starts this. They run as you, without a sandbox. What they print is on standard
    error. Restart it after a change of the tools.
    """
    from sshwarma.toolsets.bundle import read_bundle
    from sshwarma.toolsets.local_folder import read_folder
    from sshwarma.toolsets.served import describe_served
    from sshwarma.world.resources import resource_dir

    bundle = read_bundle(read_folder(folder))
    config = describe_served(bundle, folder, workspace)
    worker = resource_dir("embedded") / "toolset" / "worker.py"
    with tempfile.TemporaryFile() as file:  # an argument of a program has at most 128 KiB
        file.write(json.dumps(config).encode())
        file.seek(0)
        os.set_inheritable(file.fileno(), True)
        words = [sys.executable, "-I", "-B", str(worker), f"/dev/fd/{file.fileno()}"]
        os.execv(sys.executable, words)  # noqa: S606 - this interpreter, without a shell
