"""`sshwarma build`: rooms from a folder of plain files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from sshwarma.cli.file_argument import FileArgument
from sshwarma.cli.invocation import Invocation, with_invocation


@click.command()
@click.argument("folder", type=FileArgument(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--check", "is_check", is_flag=True, help="Exit with 1 if there is something to change."
)
@click.option("--apply", "is_applied", is_flag=True, help="Do it; without this, say what changes.")
@click.option("--prune", is_flag=True, help="Remove texts and tools that the folder lacks.")
@click.option(
    "--person",
    metavar="NAME",
    help="Who builds: who owns new rooms (default: the owner, if there is one).",
)
@with_invocation
def build(
    invocation: Invocation,
    folder: Path,
    is_check: bool,
    is_applied: bool,
    prune: bool,
    person: str | None,
) -> int:
    """Build rooms of the running server from FOLDER: all of them, or nothing.

    Shows what would change; with --apply it does it. Each folder in FOLDER with a room.toml is the
    room of its name, as `ssh HOST export folder ROOM` writes it.
    """
    import base64

    from sshwarma.building import archive
    from sshwarma.common.exit_status import EXIT_FAILED
    from sshwarma.world.errors import Invalid

    if is_check and is_applied:
        raise Invalid("--check and --apply exclude each other.")
    data = archive.pack(_read_files(folder.resolve()))
    result = invocation.ask_server(
        "build_rooms",
        is_change=is_applied,
        archive=base64.b64encode(data).decode(),
        apply=is_applied,
        prune=prune,
        person=person,
    )
    shown: list[str] = result.pop("shown")
    status = invocation.show(result, *shown)
    return EXIT_FAILED if is_check and result["status"] != "same" else status


def _read_files(folder: Path) -> dict[str, str]:
    """Return the files below a folder, by their paths with its name before.

    Raises:
        Invalid: if one is a link, no file, or no UTF-8, or there are too many.
    """
    from sshwarma.building import archive
    from sshwarma.world.errors import Invalid

    files: dict[str, Any] = {}
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            path = Path(root, name)
            shown = str(Path(folder.name, path.relative_to(folder)))
            if path.is_symlink() or not path.is_file():
                raise Invalid(f"{shown}: neither a file nor a folder.")
            archive.check_count(len(files) + 1)
            try:
                files[shown] = path.read_bytes().decode()
            except UnicodeDecodeError as error:
                raise Invalid(f"{shown}: byte {error.start} is not UTF-8.") from error
    return files
